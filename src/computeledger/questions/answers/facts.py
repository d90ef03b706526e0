"""Answer questions about facts: a model's shape, a record's facts, a search, two records compared, sources cited."""

from __future__ import annotations

import dataclasses
import functools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from computeledger.errors import InputError, UnknownIdError, close_choices, nearest, shown, unknown_id
from computeledger.facts.architecture import Model
from computeledger.facts.catalog import (
    node_ids,
    normal_id,
    ownership_editions,
    price_editions,
    tier_editions,
    user_path,
)
from computeledger.facts.counted import compact, read_counted
from computeledger.facts.editions import load_ownership, load_prices, load_tiers
from computeledger.facts.load import (
    accelerator_called,
    accelerator_ids,
    bundled_system,
    load_accelerator,
    load_model,
    load_node,
    load_system,
    model_ids,
    system_ids,
)
from computeledger.facts.reading import ASSUMPTION, read_file
from computeledger.facts.reliability import load_reliability
from computeledger.facts.schema import PRECISION_BYTES, Accelerator, Fact
from computeledger.frontier.epoch_files import COPY_DATE, SiteDate, shipped_sites
from computeledger.physics import transformer
from computeledger.physics.roofline import parse_precision
from computeledger.questions.answer import Answer
from computeledger.questions.facts import ModelQuestion
from computeledger.questions.grounds import fact_document
from computeledger.questions.wording import show
from computeledger.sources import Source, load_sources


@dataclass(frozen=True, slots=True)
class Counted:
    """What a model's configuration says, in the shape of a fact."""

    value: float | str
    given: str
    unit: str = ""
    source: str = "configuration"
    date: str = ""
    locator: str = "counted from the configuration"


Stated: TypeAlias = Fact | Counted


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class ModelAnswer(Answer):
    """A model's counts and shape."""

    model: Model
    kv_precision: str

    @property
    def kv_bytes_per_token(self) -> float:
        """Cache of one token over all layers [byte]."""
        return float(transformer.kv_bytes_per_token(self.model, PRECISION_BYTES[self.kv_precision]))

    @property
    def attention(self) -> Mapping[Any, int]:
        """Kinds of mixer, each with its number of layers."""
        counts: dict[Any, int] = {}
        for group in self.model.layers:
            counts[group.attention] = counts.get(group.attention, 0) + group.count
        return counts

    @property
    def experts(self) -> dict[str, int] | None:
        """Counts of the widest expert layers; None in a dense model."""
        widest = max((group.feed_forward for group in self.model.layers), key=lambda part: part.n_experts)
        if not widest.n_experts:
            return None
        names = ("n_experts", "n_experts_active", "n_shared_experts", "expert_width")
        layers = sum(group.count for group in self.model.layers if group.feed_forward.n_experts)
        return {**{name: getattr(widest, name) for name in names}, "layers": layers}

    def contents(self, *, working: bool = False) -> dict[str, Any]:  # noqa: ARG002 (facts have none)
        """As ``computeledger facts model --json`` prints it."""
        model = self.model
        stored = ("hidden_size", "vocab_size", "tied_embeddings", "max_context_tokens", "weight_precision",
                  "expert_precision", "n_mtp_layers")  # fmt: skip
        return {
            "id": model.id,
            "n_params_total": transformer.n_params_total(model),
            "n_params_active": transformer.n_params_active(model),
            "n_params_active_with_embeddings": transformer.n_params_active_with_embeddings(model),
            "kv_bytes_per_token": self.kv_bytes_per_token,
            "kv_precision": self.kv_precision,
            "state_bytes_per_sequence": float(transformer.state_bytes_per_sequence(model)),
            "n_layers": model.n_layers,
            **{name: getattr(model, name) for name in stored},
            "attention": [
                {
                    "kind": mixer.kind,
                    "layers": layers,
                    "query_heads": mixer.n_query_heads,
                    "kv_heads": mixer.n_kv_heads,
                    "qk_head_dim": mixer.qk_head_dim,
                    "v_head_dim": mixer.v_head_dim,
                    "window": mixer.window,
                    "kv_lora_rank": mixer.kv_lora_rank or None,
                    "sparse_tokens": mixer.sparse_tokens,
                }
                for mixer, layers in self.attention.items()
            ],
            "experts": self.experts,
            "dense_layers": sum(group.count for group in model.layers if group.feed_forward.width),
            "vision": {"n_params": model.vision.n_params, "n_layers": model.vision.n_layers} if model.vision else None,
            "published": _documents(model.published),
            "aliases": list(model.aliases),
            "notes": list(model.notes),
        }


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class FactsAnswer(Answer):
    """A record with its facts: an accelerator, a system, a model, an edition, a site."""

    id: str
    kind: str
    name: str
    facts: Mapping[str, Fact]
    more: Mapping[str, str | list[str]] = field(default_factory=dict)

    def contents(self, *, working: bool = False) -> dict[str, Any]:  # noqa: ARG002 (facts have none)
        """As ``computeledger facts show --json`` prints it."""
        named = {"id": self.id, "kind": self.kind, "name": self.name}
        return {**named, "facts": _documents(self.facts), **self.more}


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class SourceAnswer(Answer):
    """A publication that facts cite."""

    source: Source

    def contents(self, *, working: bool = False) -> dict[str, Any]:  # noqa: ARG002 (facts have none)
        """As ``computeledger facts show --json`` prints it."""
        fields = {name: value for name, value in asdict(self.source).items() if name != "key"}
        return {"id": self.source.key, "kind": "source", **fields, "facts": {}}


@dataclass(frozen=True, slots=True)
class FoundFact:
    """A fact that a search found, the record that it belongs to, and how near it is to the query: 0 is the nearest.

    ``names_both``: the query names the record and the fact.
    """

    id: str
    kind: str
    name: str
    fact: Fact
    record: str = ""
    nearness: int = 0
    names_both: bool = False


@dataclass(frozen=True, slots=True)
class KnownKind:
    """How much is known of records of a kind (accelerators, models, sites), and how many of its facts are assumed."""

    kind: str
    n_records: int
    n_facts: int
    n_sources: int
    newest: str
    n_assumptions: int


@dataclass(frozen=True, slots=True)
class Known:
    """How much is published in all, from when to when it was stated, and how much is assumed here."""

    kinds: tuple[KnownKind, ...]
    n_published: int
    n_sources: int
    n_assumptions: int
    oldest: str
    newest: str


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class SearchAnswer(Answer):
    """Facts that mention every word of a query; without words, how much is known of each kind.

    ``meant`` are the nearest words that a fact mentions, where none mentions those of the query; ``kind`` is that of
    the records, where the query names a kind.
    """

    query: str
    found: tuple[FoundFact, ...]
    known: Known | None = None
    meant: str = ""
    kind: str = ""

    def contents(self, *, working: bool = False) -> dict[str, Any]:  # noqa: ARG002 (facts have none)
        """As ``computeledger facts search --json`` prints it."""
        results = [{"id": one.id, "kind": one.kind, "name": one.name, **fact_document(one.fact)} for one in self.found]
        return {"query": self.query, "results": results, **({"known": asdict(self.known)} if self.known else {})}


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class ChipsAnswer(Answer):
    """Shipped accelerators whose name, maker or family has every word of a query."""

    query: str
    found: tuple[Accelerator, ...]

    def contents(self, *, working: bool = False) -> dict[str, Any]:  # noqa: ARG002 (facts have none)
        """As ``computeledger facts list --json`` prints it."""
        rows = [
            {"id": one.id, "name": one.name, "vendor": one.vendor, "family": one.family, "node": one.node,
             "announced": one.announced, "hbm_bytes": one.hbm_bytes.value, "hbm_bytes_per_s": one.hbm_bytes_per_s.value,
             "peak_flop_per_s": {name: fact.value for name, fact in one.peak_flop_per_s.items()},
             "chip_tdp_w": one.chip_tdp_w.value}
            for one in self.found
        ]  # fmt: skip
        return {"query": self.query, "accelerators": rows}


@dataclass(frozen=True, slots=True)
class Difference:
    """A fact in which two records differ."""

    name: str
    a: Stated | None
    b: Stated | None

    @property
    def ratio(self) -> float | None:
        """The second over the first; None where that is no number."""
        numbers = [one.value for one in (self.a, self.b) if one is not None and not isinstance(one.value, str)]
        return numbers[1] / numbers[0] if len(numbers) == 2 and numbers[0] else None


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class DiffAnswer(Answer):
    """Facts in which two records of one kind differ."""

    a: str
    b: str
    kind: str
    n_equal: int
    differences: tuple[Difference, ...]

    def contents(self, *, working: bool = False) -> dict[str, Any]:  # noqa: ARG002 (facts have none)
        """As ``computeledger facts diff --json`` prints it."""
        differences = [
            {"name": one.name, "a": _side_document(one.a), "b": _side_document(one.b), "ratio": one.ratio}
            for one in self.differences
        ]
        named = {"a": self.a, "b": self.b, "kind": self.kind, "n_equal": self.n_equal}
        return {**named, "differences": differences}


def _documents(facts: Mapping[str, Fact]) -> dict[str, Any]:
    return {name: fact_document(fact) for name, fact in facts.items()}


def _side_document(fact: Stated | None) -> dict[str, Any] | None:
    return fact_document(fact) if isinstance(fact, Fact) else asdict(fact) if fact else None


#: Ids of the editions of a kind, and what loads one.
EDITIONS: Mapping[str, tuple[Callable[[], tuple[str, ...]], Callable[[str], Any]]] = {
    "prices": (price_editions, load_prices),
    "ownership": (ownership_editions, load_ownership),
    "tiers": (tier_editions, load_tiers),
}


def answer_model(question: ModelQuestion) -> ModelAnswer:
    """Answer ``computeledger facts model``."""
    parse_precision("bf16", False, question.kv_precision)
    return ModelAnswer(load_model(question.model), question.kv_precision)


def fact_rows(record: Any, prefix: str = "") -> dict[str, Fact]:
    """Every fact of a record, by dotted name; a system's own, without those of its accelerator.

    Examples
    --------
    >>> [name for name in fact_rows(load_tiers()) if name.startswith("tiers.hdd")][0]
    'tiers.hdd-24tb.capacity_bytes'
    """
    rows: dict[str, Fact] = {}
    names = record if isinstance(record, Mapping) else [item.name for item in dataclasses.fields(record)]
    for name in names:
        value = record[name] if isinstance(record, Mapping) else getattr(record, name)
        if isinstance(value, Fact):
            rows[f"{prefix}{name}"] = value
        elif isinstance(value, Mapping) or (dataclasses.is_dataclass(value) and name != "accelerator"):
            rows |= fact_rows(value, f"{prefix}{name}.")
    return rows


def _edition_rows(edition: str) -> dict[str, Fact]:
    """Facts of every kind of edition that has this date."""
    rows: dict[str, Fact] = {}
    for kind, (editions, load) in EDITIONS.items():
        if edition in editions():
            rows |= fact_rows(load(edition), "" if kind == "tiers" else f"{kind}.")
    return rows


def _hardware_ids() -> list[str]:
    return [*accelerator_ids(), *node_ids(), *system_ids()]


def _edition_ids() -> list[str]:
    return sorted({edition for editions, _ in EDITIONS.values() for edition in editions()})


def show_facts(given: str) -> FactsAnswer | SourceAnswer:
    """Answer ``computeledger facts show``."""
    if given in load_sources():
        return SourceAnswer(load_sources()[given])
    return _record(given)


def _record(given: str) -> FactsAnswer:
    """The record that an id names."""
    if given in _edition_ids():
        return FactsAnswer(given, "edition", f"prices, ownership and storage as of {given}", _edition_rows(given))
    if normal_id(given) in accelerator_ids():
        chip = load_accelerator(given)
        prices = load_prices().usd_per_gpu_hour.get(chip.id, {})
        rows = fact_rows(chip) | {f"usd_per_gpu_hour.{kind}": fact for kind, fact in prices.items()}
        return FactsAnswer(chip.id, "accelerator", chip.name, rows)
    if given in node_ids():
        return FactsAnswer(given, "node", load_node(given).name, fact_rows(load_node(given)))
    if normal_id(given) in system_ids() or read_counted(given) is not None:
        system = bundled_system(given)
        made_of = {"accelerator": system.accelerator.id}
        return FactsAnswer(system.id, "system", system.name, fact_rows(system), made_of)
    if given in _site_rows():
        return FactsAnswer(given, "site", given, _site_rows()[given])
    if given in load_reliability():
        stops = load_reliability()[given]
        return FactsAnswer(stops.id, "reliability", f"interruptions: {stops.name}", stops.facts)
    try:
        model = _model(given)
    except UnknownIdError as error:
        named = accelerator_called(given)
        if named is None or " could mean " in str(error):
            raise
        return _record(named.id)
    return FactsAnswer(model.id, "model", model.id, model.published, {"notes": list(model.notes)})


@functools.cache
def _site_rows() -> Mapping[str, Mapping[str, Fact]]:
    """Sites of data centres, each as it stands at its last date of the copy that is no projection."""
    units = {"facility_w": ("w", "W"), "it_w": ("w", "W"), "h100e_8bit": ("count", ""), "capex_usd": ("usd", "USD")}
    last: dict[str, SiteDate] = {}
    for one in shipped_sites():
        if one.name not in last or last[one.name].date < one.date <= COPY_DATE:
            last[one.name] = one
    return {
        name: {
            key: Fact(value, unit, show(value, said), "epoch-data-centers", site.date, f"{name}, {site.date}")
            for key, (unit, said) in units.items()
            if (value := getattr(site, key)) is not None
        }
        for name, site in last.items()
    }


def _model(given: str) -> Model:
    """A model; where the text names nothing at all, the error offers ids of every kind."""
    try:
        return load_model(given)
    except UnknownIdError:
        try:
            load_accelerator(given)
        except UnknownIdError as error:
            if " could mean " in str(error):
                raise
        every = [*_hardware_ids(), *model_ids(), *_edition_ids(), *load_reliability(), *load_sources()]
        if not close_choices(given, every):
            raise UnknownIdError(f"unknown id {shown(given)}: `computeledger facts search WORD` finds ids") from None
        raise unknown_id("id", given, every) from None


def list_chips(query: str = "") -> ChipsAnswer:
    """Answer ``computeledger facts list``: by maker, the newest of an id's family first."""
    chips = [load_accelerator(one) for one in accelerator_ids()]
    words = [compact(word) for word in query.split() if word.lower() not in _ANY_CHIP]
    found = [one for one in chips if all(word in _called(one) for word in words)]
    if not found:
        raise unknown_id("accelerator", query, [*accelerator_ids(), *(one.vendor for one in chips)])
    return ChipsAnswer(query, tuple(sorted(found, key=lambda one: (one.vendor.lower(), one.family, one.id))))


#: Words that narrow no list of accelerators.
_ANY_CHIP = ("accelerator", "accelerators", "chip", "chips", "gpu", "gpus", "all")


def _called(chip: Accelerator) -> str:
    """All that a chip goes by and stands in, without spaces and dashes."""
    said = (chip.id, chip.name, chip.vendor, chip.family, *chip.aliases, chip.scope)
    return " ".join(compact(one) for one in said)


def searched_records() -> Iterator[FactsAnswer]:
    """Every record that a search looks through."""
    for given in [*_hardware_ids(), *_edition_ids(), *model_ids(), *load_reliability(), *_site_rows()]:
        yield _record(given)


@functools.cache
def searched_facts() -> SearchAnswer:
    """How much a search looks through, by the kind of record."""
    facts: dict[str, list[Fact]] = {}
    records: Counter[str] = Counter()
    for record in searched_records():
        facts.setdefault(record.kind, []).extend(record.facts.values())
        records[record.kind] += bool(record.facts)
    kinds = [
        KnownKind(kind, records[kind], len(held), len(_sources(held)), max(one.date for one in held),
                  sum(one.source == ASSUMPTION for one in held))
        for kind, held in facts.items()
    ]  # fmt: skip
    every = [one for held in facts.values() for one in held]
    dates, n_assumed = [one.date for one in every], sum(one.source == ASSUMPTION for one in every)
    largest = sorted(kinds, key=lambda one: -one.n_records)
    return SearchAnswer(
        "",
        (),
        Known(tuple(largest), len(every) - n_assumed, len(_sources(every)), n_assumed, min(dates), max(dates)),
    )


def _sources(facts: Sequence[Fact]) -> set[str]:
    """Publications that facts were read in."""
    return {one.source for one in facts} - {ASSUMPTION}


def _exists(path: str) -> bool:
    try:
        return Path(path).exists()
    except OSError:  # longer than a file name can be
        return False


def cited_sources(targets: Sequence[str]) -> tuple[str, ...]:
    """Keys of the sources that plans rest on, and keys that are named, for ``computeledger cite``."""
    keys: set[str] = set()
    for target in targets:
        if target.endswith(".toml") or _exists(target):
            from computeledger.economics.plan.ledger import estimate_ledger
            from computeledger.economics.plan.read import load_plan

            keys |= set(estimate_ledger(load_plan(target), n_samples=16).sources)
        elif target in load_sources():
            keys.add(target)
        else:
            raise unknown_id("source", target, load_sources())
    return tuple(sorted(keys))


#: Where a user's file says what it is: a field that only this kind of record has.
_MARKS = {
    "peak_flop_per_s": "accelerator", "hbm_bytes": "accelerator", "hbm_bytes_per_s": "accelerator",
    "chip_tdp_w": "accelerator", "accelerator": "system", "n_gpus_scale_up": "system",
    "scale_up_bytes_per_s_per_gpu": "system", "scale_out_bytes_per_s_per_gpu": "system",
    "facility_w_per_chip": "system", "it_w_per_chip": "system", "usd_per_gpu_hour": "prices",
    "electricity_usd_per_kwh": "prices", "capex_usd_per_gpu": "ownership", "life_years": "ownership",
    "cost_of_capital_fraction": "ownership", "occupancy_fraction": "ownership", "tiers": "tiers",
    "config_json": "model", "model_type": "model",
}  # fmt: skip


def _side(given: str) -> tuple[str, dict[str, Stated]]:
    """Kind and rows of one side of a comparison: an id, an edition, or a user's file."""
    path = user_path(given)
    if path is None:
        record = show_facts(given)
        if isinstance(record, SourceAnswer):
            raise InputError(f"{shown(given)} is a source: compare two editions, accelerators, systems or models")
        rows = {name: fact for name, fact in record.facts.items() if not name.startswith("usd_per_gpu_hour.")}
        return record.kind, rows | (_counts(load_model(given)) if record.kind == "model" else {})
    table = {} if path.is_dir() else read_file(path).table
    kind = next((what for name, what in _MARKS.items() if name in table), "model" if path.is_dir() else None)
    if kind is None:
        raise InputError(f"{given}: no field tells what it describes; {nearest('', _MARKS)}")
    if kind == "model":
        model = load_model(given)
        return kind, {**model.published, **_counts(model)}
    loaders: dict[str, Callable[[str], Any]] = {"accelerator": load_accelerator, "system": load_system}
    loaders |= {name: load for name, (_, load) in EDITIONS.items()}
    prefix = f"{kind}." if kind in ("prices", "ownership") else ""
    return "edition" if kind in EDITIONS else kind, {**fact_rows(loaders[kind](given), prefix)}


def _counts(model: Model) -> dict[str, Stated]:
    """What a model's configuration says, in the shape of facts."""
    counted = {
        "n_params_total": transformer.n_params_total(model),
        "n_params_active": transformer.n_params_active(model),
        "kv_bytes_per_token": ModelAnswer(model, "bf16").kv_bytes_per_token,
    }
    names = ("n_layers", "hidden_size", "vocab_size", "weight_precision", "expert_precision")
    values = counted | {name: getattr(model, name) for name in names}
    return {f"counted.{name}": Counted(value, f"{value}") for name, value in values.items()}


def diff_facts(first: str, second: str) -> DiffAnswer:
    """Facts in which two editions, accelerators, systems or models differ.

    Parameters
    ----------
    first, second : str
        Ids, dates of editions, or paths of files.

    Returns
    -------
    DiffAnswer
        Facts that differ, each with both values, their ratio and their sources.

    Raises
    ------
    InputError
        For two records of different kinds.

    Examples
    --------
    >>> chips = diff_facts("h100-sxm5-80gb", "h200-sxm5-141gb")
    >>> {one.name: round(one.ratio, 2) for one in chips.differences if one.name == "hbm_bytes"}
    {'hbm_bytes': 1.76}
    """
    (kind, rows), (other_kind, others) = _side(first), _side(second)
    if kind != other_kind:
        raise InputError(f"{shown(first)} is of another kind than {shown(second)}: {kind} against {other_kind}")
    if kind == "edition":  # an edition of one kind alone is compared with its own kind
        kinds = {name.partition(".")[0] for name in rows} & {name.partition(".")[0] for name in others}
        rows, others = (
            {key: fact for key, fact in side.items() if key.partition(".")[0] in kinds} for side in (rows, others)
        )
    both = [Difference(name, rows.get(name), others.get(name)) for name in dict.fromkeys((*rows, *others))]
    found = tuple(one for one in both if one.a is None or one.b is None or one.a.value != one.b.value)
    return DiffAnswer(first, second, kind, len(both) - len(found), found)
