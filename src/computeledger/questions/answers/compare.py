"""Answer a comparison of offers: each as ``serve`` answers it, in the order of cost, with how sure the order is."""

from __future__ import annotations

import csv
import functools
import io
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from os import PathLike
from typing import Any

from computeledger.arrays import Range, median
from computeledger.errors import InputError, UnknownIdError
from computeledger.fields import Given, python_spelling
from computeledger.files import user_files_allowed
from computeledger.physics.calibration.efficiency import median_of
from computeledger.physics.parallelism import Layout
from computeledger.questions.answer import Answer, from_python
from computeledger.questions.answers.prices.sheets import answer_bill
from computeledger.questions.answers.serving.answer import ServeAnswer, answer_serve
from computeledger.questions.answers.serving.offers import price_spread, read_offers
from computeledger.questions.answers.serving.pools import PoolsAnswer
from computeledger.questions.answers.serving.setting import Setting
from computeledger.questions.answers.serving.surer import SURE, sure_fleet
from computeledger.questions.compare import CompareQuestion, Offer, Offers
from computeledger.questions.executors import local_workers, open_executor
from computeledger.questions.prices import BillQuestion
from computeledger.questions.wording import meets_words
from computeledger.units import HOURS_PER_MONTH, MEGA, MONTH_S
from computeledger.workloads.questions.serve import ONE_POOL, ServeQuestion
from computeledger.workloads.serving.offers import (
    Deployed,
    Priced,
    PromisedFleet,
    chances,
    cheapest_probabilities,
    fleet_priced,
    spread_of,
)
from computeledger.workloads.sweep import sweep as in_order
from computeledger.writing import write_bytes

#: Offers with promises from which on a comparison starts a process per core by itself.
LONG_COMPARISON = 8
#: What is said of an offer that nothing is known of but its price sheet.
_API_SPEED = "no fact states the speed of an API: that it keeps a promise is not checked"
#: Names of figures in documents where attributes have others.
_KEYS = {"j_per_token": "joules_per_token", "sure": "at_90_percent"}


@dataclass(frozen=True, slots=True)
class Served:
    """What an offer takes and costs; None where it was not asked about or is not known."""

    usd_per_request: float
    usd_per_mtok: float
    usd_per_month: float | None = None
    spare_usd_per_month: float | None = None
    usd_per_gpu_hour: float | None = None
    replicas: int | None = None
    gpus: int | None = None
    gpus_with_spare: int | None = None
    layout: str | None = None
    weights: str | None = None
    w: float | None = None
    j_per_token: float | None = None
    attained: Mapping[str, Mapping[str, float]] | None = None
    kept_probability: float | None = None
    sure: Mapping[str, Any] | None = None
    meets: Mapping[str, Mapping[str, float]] | None = None
    bound: str | None = None
    tightest_limit: str | None = None
    tightest_used_fraction: float | None = None
    ttft_s: Any = None
    tpot_s: Any = None


#: Figures of the fewest GPUs that stand in a document as those of the fleet to take alone.
_OF_THE_FLEET = ("ttft_s", "tpot_s")
#: Chance of being the cheaper one under which cost does not tell two offers apart (assumption) [-].
_OPEN = 0.65
#: By how much more surely an offer has to keep its promise to be the better one of a tie (assumption) [-].
_SURER = 0.05


def _tied(cheaper: Sequence[float]) -> list[int]:
    """Places of the first offer and of those that are cheaper about as likely."""
    return [0, *(place for place in range(1, len(cheaper)) if cheaper[place] < _OPEN)]


def recommended_place(cheaper: Sequence[float], kept: Sequence[float | None], sure_usd: Sequence[float | None]) -> int:
    """The place of the offer to take: the cheapest of those that keep what is asked with a chance of 90 %.

    Where none does: of a tie on cost the cheapest that keeps its promise as surely as any. Where nothing is known of
    how surely the first keeps it, such as of an API: the first.

    Parameters
    ----------
    cheaper : sequence of float
        Chance that the first offer is cheaper than each; its own place is not read [-].
    kept : sequence of float or None
        Chance that each keeps its promise with the fewest GPUs; None where it is not known [-].
    sure_usd : sequence of float or None
        What a request costs on as many GPUs as keep it with a chance of 90 % [USD]; None where no number does.

    Examples
    --------
    >>> recommended_place([0.5, 0.55, 0.9], [0.6, 0.7, 0.99], [3.0, None, 2.0])
    2
    >>> recommended_place([0.5, 0.55, 0.9], [0.6, 0.7, 0.8], [None, None, None])
    1
    """
    if kept[0] is None:
        return 0
    sure = [(usd, place) for place, usd in enumerate(sure_usd) if usd is not None]
    if sure:
        return min(sure)[1]
    tied = _tied(cheaper)
    known = [(place, chance) for place in tied for chance in [kept[place]] if chance is not None]
    if len(known) < len(tied):
        return 0
    surest = max(chance for _, chance in known) - _SURER
    return next(place for place, chance in known if chance >= surest)


@dataclass(frozen=True, slots=True)
class Compared:
    """An offer with its answer, how its cost moves with what is uncertain, and what is not known of it."""

    offer: Offer
    served: Served
    priced: Priced
    remark: str = ""

    @property
    def sure_ratio(self) -> float | None:
        """GPUs that keep what is asked with a chance of 90 %, over the fewest; None where no number does [-]."""
        served = self.served
        if served.kept_probability is None or served.kept_probability >= SURE:
            return None if served.kept_probability is None else 1.0
        return served.sure["usd_per_month"] / served.usd_per_month if served.sure and served.usd_per_month else None

    def _per_gpu(self, gpus: int | None) -> float | None:
        """Requests that each GPU of a fleet serves; None without a load [1/s]."""
        question = self.offer.question
        rate = None if question is None else question.requests_per_s
        return None if rate is None or not gpus else median_of(rate) / gpus

    def fleet(self) -> dict[str, Any]:
        """The fleet to take of it: the GPUs that keep what is asked with 90 %; the fewest where no number does.

        The interval of its cost is that of its rent, as it has so many GPUs; without a load it is that of the speed.
        """
        served, ratio = self.served, self.sure_ratio or 1.0
        sure = served.sure if ratio > 1 else None
        low, high = self.priced.rent_interval_usd if served.gpus else self.priced.interval_usd
        return {
            "gpus": sure["gpus"] if sure else served.gpus,
            "replicas": sure.get("replicas") if sure else served.replicas,
            "requests_per_s_per_gpu": self._per_gpu(sure["gpus"] if sure else served.gpus),
            "layout": sure.get("layout", served.layout) if sure else served.layout,
            "w": None if served.w is None else served.w * ratio,
            "joules_per_token": None if served.j_per_token is None else served.j_per_token * ratio,
            "ttft_s": sure.get("ttft_s") if sure else served.ttft_s,
            "tpot_s": sure.get("tpot_s") if sure else served.tpot_s,
            "attained": sure.get("attained") if sure else served.attained,
            "tightest_limit": sure.get("tightest_limit") if sure else served.tightest_limit,
            "tightest_used_fraction": sure.get("tightest_used_fraction") if sure else served.tightest_used_fraction,
            "kept_probability": sure["kept_probability"] if sure else served.kept_probability,
            "usd_per_month": None if served.usd_per_month is None else served.usd_per_month * ratio,
            "usd_per_request": served.usd_per_request * ratio,
            "usd_per_request_p05": low * ratio,
            "usd_per_request_p95": high * ratio,
        }


@dataclass(frozen=True, slots=True)
class Refused:
    """An offer that cannot serve the workload, and why."""

    offer: Offer
    why: str


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class CompareAnswer(Answer):
    """Offers in the order of their cost per request; those without an answer last."""

    question: CompareQuestion
    offers: tuple[Compared, ...]
    without_answer: tuple[Refused, ...]
    cheaper: tuple[tuple[float, ...], ...]

    @property
    def tied(self) -> tuple[Compared, ...]:
        """The cheapest offer, and those whose chance of being the cheaper one is about as great."""
        return tuple(self.offers[place] for place in _tied(self.cheaper[0])) if self.offers else ()

    @property
    def recommended(self) -> Compared | None:
        """The cheapest offer that keeps what is asked with a chance of 90 %; see :func:`recommended_place`."""
        if not self.offers:
            return None
        kept = [one.served.kept_probability for one in self.offers]
        sure = [None if one.sure_ratio is None else one.sure_ratio * _usd(one)[0] for one in self.offers]
        return self.offers[recommended_place(self.cheaper[0], kept, sure)]

    @property
    def cheapest(self) -> Compared | None:
        """The offer of the least cost per request at the medians; None where none has an answer."""
        return self.offers[0] if self.offers else None

    @property
    def cheapest_probabilities(self) -> tuple[float | None, ...]:
        """Chance of each fleet that keeps what is asked with 90 % to be the cheapest of those, as rents differ."""
        sure = [(one, one.sure_ratio) for one in self.offers if one.sure_ratio is not None]
        fleets = [replace(one.priced, usd=one.served.usd_per_request * ratio) for one, ratio in sure]
        odds = iter(cheapest_probabilities(fleets).tolist())
        return tuple(None if one.sure_ratio is None else next(odds) for one in self.offers)

    @property
    def has_working(self) -> bool:
        """Each offer's own answer has it."""
        return False

    @property
    def read_from(self) -> tuple[str, ...]:
        """The file of offers, and what its offers name."""
        named = [self.question.offers] if isinstance(self.question.offers, str) else []
        return (*named, *(one.offer.terms.api for one in self.offers if one.offer.terms.api))

    def contents(self, *, working: bool = False) -> dict[str, Any]:
        """As ``computeledger compare --json`` prints it; an offer's working is that of ``serve``."""
        del working
        odds = self.cheapest_probabilities
        rows = [self._row(place, chance) for place, chance in enumerate(odds)]
        refused = [_asked_document(one.offer) | {"rank": None, "why": one.why} for one in self.without_answer]
        best = self.recommended
        recommended = best and {"offer": best.offer.name, **next(one["fleet"] for one in rows if one["is_recommended"])}
        return {"recommended": recommended, "offers": [*rows, *refused], "break_even": self._break_even()}

    def _row(self, place: int, chance: float | None) -> dict[str, Any]:
        """An offer with what it takes, and how it stands to the others."""
        one = self.offers[place]
        low, high = one.priced.interval_usd
        names = [each.offer.name for each in self.offers]
        is_last = place + 1 == len(self.offers)
        return {
            **_asked_document(one.offer),
            "rank": place + 1,
            "is_recommended": one is self.recommended,
            "is_tied_on_cost": len(self.tied) > 1 and any(one is each for each in self.tied),
            **{_KEYS.get(key, key): value for key, value in asdict(one.served).items() if key not in _OF_THE_FLEET},
            "usd_per_request_p05": low,
            "usd_per_request_p95": high if math.isfinite(high) else None,
            "fleet": {**one.fleet(), "cheapest_probability": chance},
            "cheaper_than_next_probability": None if is_last else self.cheaper[place][place + 1],
            "cheaper_probability": {
                name: chance for name, chance in zip(names, self.cheaper[place], strict=True) if name != names[place]
            },
            "why": one.remark,
        }

    def _break_even(self) -> list[dict[str, Any]]:
        """Prices at which others become the cheapest, and volumes at which the fleets cost what an API does."""
        return [*self._prices(), *self._volumes()]

    def _prices(self) -> Iterator[dict[str, Any]]:
        priced = self._priced()
        for one, each in priced:
            others = [usd for other, usd in priced if other is not one]
            price = one.served.usd_per_gpu_hour
            if price and each and others:
                even = price * min(others) / each
                yield {
                    "kind": "price",
                    "offer": one.offer.name,
                    "usd_per_gpu_hour": price,
                    "equal_usd_per_gpu_hour": even,
                }

    def _priced(self) -> list[tuple[Compared, float]]:
        """Offers with what a request costs, where any keeps what is asked with 90 % on so many GPUs; and APIs."""
        if all(one.sure_ratio is None for one in self.offers):
            return [(one, one.served.usd_per_request) for one in self.offers]
        known = [(one, 1.0 if one.offer.terms.api else one.sure_ratio) for one in self.offers]
        return [(one, ratio * one.served.usd_per_request) for one, ratio in known if ratio is not None]

    def _volumes(self) -> Iterator[dict[str, Any]]:
        priced = self._priced()
        apis = [(one, usd) for one, usd in priced if one.offer.terms.api and usd > 0]
        for api, usd in apis:
            for one, each in priced:
                if not one.served.usd_per_month or not one.served.gpus:
                    continue
                asked = one.served.usd_per_month / one.served.usd_per_request
                equal = asked * each / usd
                yield {
                    "kind": "volume",
                    "offer": one.offer.name,
                    "api": api.offer.name,
                    "requests_per_month": equal,
                    "of_the_load_ratio": equal / asked,
                    "one_replica_requests_per_month": one.served.usd_per_month / usd / one.served.replicas
                    if one.served.replicas
                    else None,
                }

    def csv_text(self) -> str:
        """The offers as CSV, a row each; what is not known is empty."""
        even = {one["offer"]: one["equal_usd_per_gpu_hour"] for one in self._prices()}
        rows = [dict(_flat(one)) for one in self.to_dict()["offers"]]
        rows = [one | {"equal_usd_per_gpu_hour": even.get(one["name"])} for one in rows]
        columns = list(dict.fromkeys(key for row in rows for key in row))
        out = io.StringIO()
        writer = csv.DictWriter(out, columns, lineterminator="\n", restval="")
        writer.writeheader()
        writer.writerows(rows)
        return out.getvalue()

    def write_csv(self) -> None:
        """Write the offers where ``--csv`` says; nothing without it."""
        if self.question.csv is not None:
            write_bytes(self.question.csv, self.csv_text().encode(), "--csv", self.read_from)


def compare(
    offers: str | PathLike[str] | Mapping[str, Any] | CompareQuestion | None = None, /, **given: Given
) -> CompareAnswer:
    """Offers for one workload and one promise: what each takes and costs, and which is the cheapest, how surely.

    Parameters
    ----------
    offers : str, path, mapping or CompareQuestion
        A file of offers, its tables as the file would have them, or a question made before.
    **given : str or int
        Fields of :class:`~computeledger.questions.compare.CompareQuestion`: ``workers``, ``cluster``, ``csv``.

    Returns
    -------
    CompareAnswer
        Offers in the order of their cost per request [USD], those that cannot keep the promise apart, with reasons.

    Raises
    ------
    InputError
        For bad input; errors of a file name its line.

    Examples
    --------
    >>> shared = {"model": "llama-3.1-8b", "backend": "vllm", "input_tokens": 1024, "output_tokens": 256}
    >>> answer = compare(
    ...     {"workload": shared, "offer": [{"system": ["a100-nvl8", "h100-nvl8"], "gpus": 1, "price": 2}]}
    ... )
    >>> answer.cheapest.offer.name, answer.cheaper[0][1] > 0.6
    ('h100-nvl8', True)
    """
    if isinstance(offers, Mapping):
        return from_python(CompareQuestion, answer_compare, CompareQuestion(offers=read_offers(offers)), given)
    if isinstance(offers, str | PathLike):
        return from_python(CompareQuestion, answer_compare, None, {"offers": str(offers), **given})
    return from_python(CompareQuestion, answer_compare, offers, given)


def answer_compare(question: CompareQuestion) -> CompareAnswer:
    """Answer ``computeledger compare``."""
    read = question.offers if isinstance(question.offers, Offers) else read_offers(question.offers)
    for one in read.each:
        if one.question is None:
            _billed(one)  # a sheet that cannot be read is refused before the work on the others
    simulated = sum(one.question is not None and bool(one.question.promises) for one in read.each)
    with open_executor(local_workers(question.workers, simulated, LONG_COMPARISON), question.cluster) as executor:
        found = list(in_order(compared, read.each, executor, what="offers"))
    known = sorted((one for one in found if isinstance(one, Compared)), key=_usd)
    refused = sorted((one for one in found if isinstance(one, Refused)), key=lambda one: one.offer.name)
    cheaper = tuple(tuple(row) for row in chances([one.priced for one in known]).tolist())
    answer = CompareAnswer(question, tuple(known), tuple(refused), cheaper)
    answer.write_csv()
    return answer


def _usd(one: Compared) -> tuple[float, float, str]:
    """Cost to nine digits; of equal costs the surer promise first."""
    usd = float(f"{one.served.usd_per_request:.9g}")
    return usd, -(one.served.kept_probability or 0.0), one.offer.name


def compared(offer: Offer) -> Compared | Refused:
    """An offer as ``serve`` answers it, or as its price sheet bills it; an offer that cannot serve says why."""
    if offer.question is None:
        return _billed(offer)
    figures = _figures if user_files_allowed() else _kept_figures
    answer = figures(offer.question, offer.terms.term)
    if isinstance(answer, UnknownIdError):
        raise UnknownIdError(f"{offer.where}{answer}")
    if isinstance(answer, InputError):
        return Refused(offer, python_spelling(str(answer)))
    found = Compared(offer, *answer)
    missed = [meets_words(name, one) for name, one in (found.served.meets or {}).items() if not one["meets"]]
    return Refused(offer, "; ".join(missed)) if missed else found


#: What a fleet under a promise may do and one under a plain limit is not asked to.
_TWO_POOLS = "prefill and decode in two pools, searched for under percentiles alone"


def _figures(question: ServeQuestion, term: str) -> tuple[Served, Priced, str] | InputError:
    """What ``serve`` answers at a term of rent, in figures alone: simulated fleets are large; or why it does not."""
    try:
        return _served(answer_serve(question), term)
    except InputError as error:
        return error


#: The same where no file can be read, so that a question has one answer: whoever edits one of six offers waits for one.
_kept_figures = functools.lru_cache(maxsize=12)(_figures)


def _billed(offer: Offer) -> Compared:
    """A request at a price sheet, and a month of them."""
    rate = offer.requests_per_s
    tokens = {name: float(round(value)) for name, value in offer.lengths.items()}
    sheet, mode = offer.terms.api or "", offer.terms.api_mode
    given: dict[str, Any] = {"names": (sheet,), "mode": mode, **tokens}
    try:
        usd = answer_bill(BillQuestion(**given)).bills[0].usd
    except InputError as error:
        raise type(error)(f"{offer.where}api: {python_spelling(str(error))}") from None
    month = None if rate is None else usd * rate * MONTH_S
    served = Served(usd, usd / sum(tokens.values()) * MEGA, month)
    return Compared(offer, served, Priced(usd), _API_SPEED)


def _served(answer: ServeAnswer | PoolsAnswer, term: str) -> tuple[Served, Priced, str]:
    """The figures of a serving answer, per request of the workload and per month of its load."""
    document, setting, question = answer.to_dict(), answer.setting, answer.question
    price = median(setting.scenario.usd_per_gpu_hour)
    fleet = document.get("fleet")
    tokens = {name: _median(document[name]) for name in ("input_tokens", "cached_tokens", "output_tokens")}
    if fleet is None:
        costs = [document.get(f"usd_per_mtok_{kind}", 0.0) for kind in ("input", "cached_read", "output")]
        usd = sum(_median(cost) * n for cost, n in zip(costs, tokens.values(), strict=True)) / MEGA
    else:
        usd = fleet["usd_per_request"]
    w_per_gpu = float(setting.system.facility_w_per_chip.value)
    served = Served(
        usd_per_request=usd,
        usd_per_mtok=usd / sum(tokens.values()) * MEGA,
        usd_per_gpu_hour=price,
        layout=document["layout"],
        weights=setting.at_median.precision.name,
        j_per_token=document.get("joules_per_token", w_per_gpu / _median(document["output_tokens_per_s_per_gpu"])),
        bound=document["bound"],
        **_times(document),
    )
    deployed = _deployed(setting, document, question)
    spread = price_spread(setting.scenario.usd_per_gpu_hour)
    of_price = f"{term} {deployed.chip} {question.price} {question.prefill_price}"
    if fleet is None:
        priced = Priced(usd, deployed=deployed)
    else:
        rate = median_of(question.requests_per_s or 1.0)
        served = replace(_fleet_served(served, document, w_per_gpu, rate), sure=_at_90_percent(answer, document))
        priced = _fleet_priced(usd, document, deployed)
    served = replace(served, **_within_limits(document, served.kept_probability))
    two_pools = [_TWO_POOLS] if question.promises and document["mode"] != ONE_POOL else []
    remark = "; ".join([*two_pools, *filter(None, [_remark(served)])])
    return served, replace(priced, price_spread=spread, price_of=of_price), remark


def _times(document: Mapping[str, Any]) -> dict[str, Any]:
    """Times to the first token and per token: of a promise the medians over its simulated requests."""
    attained = document.get("attained") or {}
    return {name: attained[name]["p50"] if name in attained else document.get(name) for name in _OF_THE_FLEET}


def _at_90_percent(answer: ServeAnswer | PoolsAnswer, document: Mapping[str, Any]) -> dict[str, Any] | None:
    """The fleet that keeps what was asked with a chance of 90 %; None where none does, or it is not known."""
    fleet, kept = document["fleet"], document.get("promise")
    if kept is None:
        return None if isinstance(answer, PoolsAnswer) else sure_fleet(answer, fleet["usd_per_hour"])
    if (sure := kept["at_90_percent"]) is None:
        return None
    usd_per_hour = fleet["usd_per_hour"] * sure["gpus"] / fleet["n_gpus"]
    found = {"gpus": sure["gpus"], "usd_per_month": usd_per_hour * HOURS_PER_MONTH, "kept_probability": SURE}
    found |= {**_times(sure), "attained": sure["attained"], "limits": sure["limits"], **_tightest(sure["limits"])}
    return found if "prefill_layout" in sure else {**found, "replicas": sure["replicas"], "layout": sure["layout"]}


def _within_limits(document: Mapping[str, Any], carries_probability: float | None) -> dict[str, Any]:
    """Times at the median against plain limits, and the least of the chances that ``serve`` gives."""
    meets = document.get("meets")
    if not meets:
        return {}
    stated = {name: one | {"p50_s": _median(document[f"{name}_s"])} for name, one in meets.items()}
    least = min(one["probability"] for one in stated.values())
    return {
        "meets": stated,
        "kept_probability": least if carries_probability is None else min(least, carries_probability),
    }


def _remark(served: Served) -> str:
    """What a reader of the cost alone would miss."""
    unlikely = [meets_words(name, one) for name, one in (served.meets or {}).items() if one["probability"] < 1 / 2]
    free = ["price 0: its GPU-time costs nothing here; term = 'own' prices what is owned"] * (
        served.usd_per_request <= 0
    )
    return "; ".join([*unlikely, *free])


def _fleet_priced(usd: float, document: Mapping[str, Any], deployed: Deployed) -> Priced:
    """A fleet's cost, as it moves with real times: two pools are not made of equal replicas."""
    fleet, kept = document["fleet"], document.get("promise")
    n = fleet["n_replicas"] if document["mode"] == ONE_POOL else None
    if kept is None:
        return Priced(usd, None if n is None else fleet["load_fraction"] * n, deployed=deployed)
    sure = kept["at_90_percent"]
    ratio = sure["gpus"] / fleet["n_gpus"] if sure else None
    return fleet_priced(usd, PromisedFleet(n, kept["headroom_fraction"], ratio), deployed)


def _fleet_served(served: Served, document: Mapping[str, Any], w_per_gpu: float, requests_per_s: float) -> Served:
    """A fleet that is sized for a load: GPUs, power and the cost of a month, with one replica to spare beside it."""
    fleet, kept = document["fleet"], document.get("promise")
    n, gpus, usd_per_hour = fleet["n_replicas"], fleet["n_gpus"], fleet["usd_per_hour"]
    is_one_pool = document["mode"] == ONE_POOL
    alike = gpus // n * (n + 1) if is_one_pool else None  # two pools have a spare each, which only a promise sizes
    with_spare = kept["with_spare"]["gpus"] if kept else alike
    w = document.get("facility_w", w_per_gpu * gpus)
    return replace(
        served,
        usd_per_month=usd_per_hour * HOURS_PER_MONTH,
        spare_usd_per_month=usd_per_hour * HOURS_PER_MONTH * (with_spare / gpus - 1) if with_spare else None,
        replicas=n if is_one_pool else None,
        gpus=gpus,
        gpus_with_spare=with_spare,
        w=w,
        j_per_token=document.get("joules_per_token", w / requests_per_s / _median(document["output_tokens"])),
        usd_per_gpu_hour=usd_per_hour / gpus,
        attained=document.get("attained"),
        kept_probability=kept["kept_probability"] if kept else fleet.get("carries_probability"),
        **(_tightest(kept["limits"]) if kept else {}),
    )


def _tightest(limits: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The limit of a promise that is the nearest to break, and how much of it is used."""
    one = max(limits, key=lambda each: float(each["attained_s"] / each["limit_s"]))
    name = f"p{100 * one['share_fraction']:g} {one['quantity']}"
    return {"tightest_limit": name, "tightest_used_fraction": one["attained_s"] / one["limit_s"]}


def _deployed(setting: Setting, document: Mapping[str, Any], question: ServeQuestion) -> Deployed:
    """Which errors the answer shares with others."""
    ratio = setting.ranges.get("efficiency.serving_ratio")
    return Deployed(
        model=setting.at_median.model.id,
        chip=" after ".join(filter(None, (setting.system.accelerator.id, question.prefill_system))),
        engine=question.engine,
        weights=setting.at_median.precision.name,
        tuning=question.tuning,
        layout=setting.at_median.layout if document["mode"] == ONE_POOL else Layout(),
        batch=max(_median(document["batch"]), 1.0),
        spread=spread_of(ratio.low, ratio.high) if isinstance(ratio, Range) else 0.0,
    )


def _median(value: Any) -> float:
    return float(value["p50"]) if isinstance(value, Mapping) else float(value or 0.0)


def _asked_document(offer: Offer) -> dict[str, Any]:
    """What an offer is, as it was asked."""
    question, terms = offer.question, offer.terms
    return {
        "name": offer.name,
        "kind": "api" if question is None else "gpus",
        "model": question.model if question else None,
        "system": question.system if question else None,
        "precision": question.precision if question else None,
        "backend": question.engine if question else None,
        "term": terms.term if question else None,
        "region": terms.region,
        "api": terms.api,
    }


def _flat(document: Mapping[str, Any], at: str = "") -> Iterator[tuple[str, Any]]:
    """Values of a document with dotted names; the chances against each other one stay out of a table."""
    for key, value in document.items():
        if isinstance(value, Mapping):
            if key != "cheaper_probability":  # an offer's chances against all others are no row's
                yield from _flat(value, f"{at}{key}.")
        elif key not in ("attained", "meets", "limits"):
            yield f"{at}{key}", value
