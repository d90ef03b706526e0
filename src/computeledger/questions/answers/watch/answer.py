"""The answer of ``computeledger watch``: a server at one moment, against its prediction."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

from computeledger.actuals.live.histogram import Observed
from computeledger.actuals.live.window import Window
from computeledger.errors import InputError
from computeledger.questions.answer import Answer, Quantity, remarks_of
from computeledger.questions.answers.watch.compare import Binding, Row, binding, rows
from computeledger.questions.answers.watch.predict import HIGHER_LIMIT, Lever, Load, Prediction
from computeledger.questions.answers.watch.session import Endpoint, Session, at_load
from computeledger.questions.watch import WatchQuestion
from computeledger.units import KILO, format_si

#: Requests, or tokens, from which spans are a measurement worth an anchor or a calibration (assumption) [-].
ENOUGH_REQUESTS, ENOUGH_TOKENS = 20, 2000
#: Share of prompts from a cache up to which an anchor describes the requests (assumption) [-].
FEW_CACHED_FRACTION = 0.05


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class WatchAnswer(Answer):
    """A running server, as it was predicted and as it is; ``models`` are a stranger's words, for people alone."""

    question: WatchQuestion
    address: str
    models: tuple[str, ...]
    endpoints: tuple[Endpoint, ...]
    window: Window
    session: Window | None
    load: Load | None
    prediction: Prediction | None
    rows: tuple[Row, ...]
    binding: Binding | None
    levers: tuple[Lever, ...]
    refused: str = ""
    planned: tuple[float, float] | None = None
    lacks: str = ""
    silence: str = ""

    @property
    def engine_name(self) -> str:
        """Name of the engine."""
        return self.window.engine.name

    def row(self, key: str) -> Row | None:
        """A quantity by its key."""
        return next((one for one in self.rows if one.key == key), None)

    @property
    def anchor(self) -> str:
        """The measurement as ``serve --anchor`` takes it; empty where the span is too short, or a cache was hit."""
        session, load, known = self.session, self.load, self.prediction
        if session is None or load is None or known is None or session.tpot_s is None:
            return ""
        batch = session.batch
        if (
            not is_enough(session.requests or 0.0, session.tpot_s.count)
            or not batch
            or round(batch) < 1
            or (session.hit_fraction or 0.0) > FEW_CACHED_FRACTION
        ):
            return ""
        read = load.input_tokens + load.cached_tokens
        lengths = f"isl={max(round(read), 1)},osl={max(round(load.output_tokens), 1)}"
        return f"batch={round(batch)},{lengths},tpot={KILO * session.tpot_s.mean_s:.4g}ms,layout={known.layout}"

    @property
    def remarks(self) -> tuple[str, ...]:
        """What a reader should know beside the figures."""
        return tuple(self._remarks())

    def _remarks(self) -> Iterator[str]:
        window, session = self.window, self.session
        yield from remarks_of(self.question.model)
        if window.duration_s <= 0 and not self.silence:
            yield "one scrape: levels as they are now, and no rates, which need a second scrape"
        elif window.gauges.get("running", 0.0) > 0 and window.added.get("output_tokens") == 0.0:
            yield "requests run and no token was counted: some engines count when a request ends; try a longer --every"
        if self.refused:
            yield f"no prediction at this load: {self.refused}"
        if self.lacks and not self.silence:
            yield self.lacks
        restarts = 0 if session is None else session.restarts
        if restarts:
            often = "once" if restarts == 1 else f"{restarts} times"
            yield (
                f"counters began again {often}: a restart, or several servers behind one address; what was counted "
                "just before each is lost"
            )
        for one in self.endpoints:
            if one.damaged:
                yield f"{one.address}: {one.damaged:,} lines that are no samples were left out"
            for reason, count in one.failures.items():
                yield f"{one.said(reason)} ({'once' if count == 1 else f'{count} times'})"
        if self.prediction is None and not self.refused and self.question.plan is None and self.question.model is None:
            yield "nothing is predicted: say what runs there with --model and --system, or with --plan"
        if self.planned is not None and self.load is not None:
            read, written = (format_si(one) for one in self.planned)
            now = f"{format_si(self.load.input_tokens)} and {format_si(self.load.output_tokens)}"
            yield f"the plan counts {read} new input and {written} output tokens a request: here {now}"

    def contents(self, *, working: bool = False) -> dict[str, Any]:  # noqa: ARG002 (it has none)
        """As ``computeledger watch --once --json`` prints it."""
        known = self.prediction
        return {
            "engine": self.window.engine.id,
            "models": list(self.models),
            "endpoints": [_endpoint(one) for one in self.endpoints],
            "window_s": self.window.duration_s,
            "session_s": 0.0 if self.session is None else self.session.duration_s,
            "restarts": 0 if self.session is None else self.session.restarts,
            "load": None if self.load is None else asdict(self.load),
            "requests": {name: self.window.gauges.get(name) for name in ("running", "waiting")}
            | {"finished_per_s": self.window.rate("requests"), "preemptions_per_s": self.window.rate("preemptions")},
            "quantities": [{"quantity": one.key, **_row(one)} for one in self.rows],
            "times": [
                {"quantity": name, **times_document(one)} for name, one in self.window.times.items() if one.count
            ],
            "prediction": None
            if known is None
            else {
                "engine": known.engine, "layout": known.layout, "gpus": known.n_gpus, "bound": known.bound,
                "batch": known.load.sequences,
            },
            "binds": None if self.binding is None else asdict(self.binding),
            "levers": [asdict(one) for one in self.levers],
            "anchor": self.anchor or None,
            "remarks": list(self.remarks),
        }  # fmt: skip


def is_enough(requests: float, tokens: float) -> bool:
    """Whether so many requests or tokens are a measurement that others may build on.

    Examples
    --------
    >>> is_enough(20, 700), is_enough(14, 2000), is_enough(14, 700)
    (True, True, False)
    """
    return requests >= ENOUGH_REQUESTS or tokens >= ENOUGH_TOKENS


def answer_watch(session: Session) -> WatchAnswer:
    """The answer at the last scrape of a session.

    Raises
    ------
    InputError
        Where no address has given metrics of a server yet, with what each said.
    """
    answered = [one for one in session.watched if one.window is not None]
    server = session.server or next(iter(answered), None)
    window = None if server is None else server.window
    if server is None or window is None:
        raise InputError("; ".join(_silent(one.endpoint) for one in session.watched))
    known = at_load(session)
    deployed = session.deployment
    compared = rows(window, session.gpus, known)
    if server.is_down:  # what it did last is not what it does
        compared = tuple(replace(one, actual=None) for one in compared if one.predicted is not None)
    planned = None
    if deployed is not None and deployed.input_tokens is not None and deployed.output_tokens is not None:
        planned = deployed.input_tokens, deployed.output_tokens
    return WatchAnswer(
        question=session.question,
        address=server.address.shown,
        models=tuple(sorted(set() if server.last is None else server.last.labels("model_name"))),
        endpoints=tuple(one.endpoint for one in session.watched),
        window=window,
        session=server.session,
        load=session.load(),
        prediction=known,
        rows=compared,
        binding=binding(window, known) if window.engine.serves and not server.is_down else None,
        levers=() if server.is_down else _useful(session.levers, window),
        refused=session.refused,
        planned=planned,
        lacks=session.lacks,
        silence=server.silence,
    )


def _useful(found: tuple[Lever, ...], window: Window) -> tuple[Lever, ...]:
    """Changes that would change something: a higher limit lets nobody in where nobody waits."""
    is_waiting = window.gauges.get("waiting", 0.0) >= 1
    return tuple(one for one in found if is_waiting or one.setting != HIGHER_LIMIT)


def _silent(one: Endpoint) -> str:
    return one.said([*one.failures, "did not answer"][-2 if one.failures else -1])


def _endpoint(one: Endpoint) -> dict[str, Any]:
    return {
        "address": one.address,
        "engine": one.engine,
        "scrapes": one.scrapes,
        "failures": sum(one.failures.values()),
        "damaged_lines": one.damaged,
        "is_down": one.is_down,
    }


def _row(one: Row) -> dict[str, Any]:
    predicted: Any = None
    if isinstance(one.predicted, Quantity):
        predicted = one.predicted.p50 if one.predicted.p05 == one.predicted.p95 else asdict(one.predicted)
    return {"actual": one.actual, "predicted": predicted, "ratio": one.ratio, "inside": one.inside, "unit": one.unit}


def times_document(one: Observed) -> dict[str, Any]:
    """What was observed, in numbers.

    Examples
    --------
    >>> times_document(Observed(2.0, 3.0, {1.0: 1.0, 4.0: 2.0}))
    {'n': 2.0, 'mean_s': 1.5, 'p50_s': 1.0, 'p90_s': 3.4000000000000004}
    """
    return {"n": one.count, "mean_s": one.mean_s, "p50_s": one.quantile_s(0.5), "p90_s": one.quantile_s(0.9)}
