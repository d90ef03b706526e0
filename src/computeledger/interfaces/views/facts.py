"""Views of facts: a model's shape, a record's facts, what a search found, two records compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from computeledger.facts.load import accelerator_called, accelerator_ids, load_accelerator
from computeledger.facts.reading import ASSUMPTION
from computeledger.facts.schema import Accelerator, Fact
from computeledger.interfaces.view import Cell, Table, Tile, View
from computeledger.interfaces.views.known_facts import address, chips_plot, kind_view, known_view
from computeledger.physics import transformer
from computeledger.questions.answers.facts import (
    ChipsAnswer,
    DiffAnswer,
    FactsAnswer,
    FoundFact,
    ModelAnswer,
    SearchAnswer,
    SourceAnswer,
    Stated,
)
from computeledger.questions.fact_names import fact_words, given_words
from computeledger.questions.wording import headline_words, short_model, span, words
from computeledger.sources import Source, load_sources
from computeledger.units import format_count, format_percent, format_si

#: Rows of each kind that a search shows, and facts whose records' ids a terminal names.
_MOST, _IDS = 60, 20


def view(
    answer: ModelAnswer | FactsAnswer | SourceAnswer | SearchAnswer | ChipsAnswer | DiffAnswer, _working: bool
) -> View:
    """Of any answer about facts."""
    if isinstance(answer, ModelAnswer):
        return _model(answer)
    if isinstance(answer, SourceAnswer):
        return _source(answer.source)
    if isinstance(answer, ChipsAnswer):
        return _chips(answer)
    if isinstance(answer, SearchAnswer):
        return _searched(answer)
    return _diff(answer) if isinstance(answer, DiffAnswer) else _record(answer)


def _model(answer: ModelAnswer) -> View:
    model = answer.model
    cache = f"KV cache per token ({answer.kv_precision}"
    cache += ", inside every window)" if any(mixer.window for mixer in answer.attention) else ")"
    counts = (
        ("Parameters, total", transformer.n_params_total(model), ""),
        ("Active per token (head in, embedding out)", transformer.n_params_active(model), ""),
        ("Active with embeddings", transformer.n_params_active_with_embeddings(model), ""),
        (cache, answer.kv_bytes_per_token, "B"),
        ("State per sequence", float(transformer.state_bytes_per_sequence(model)), "B"),
    )
    return View(
        title=model.id,
        headline=headline_words(
            short_model(model.id),
            f"{format_si(transformer.n_params_total(model), digits=4)} parameters, "
            f"{format_si(transformer.n_params_active(model), digits=4)} active for a token",
        ),
        tiles=tuple(
            Tile(label, format_si(value, unit, digits=4), value=value) for label, value, unit in counts if value
        ),
        tile_heading="",
        tables=(Table("Shape", ("", ""), _shape(answer)), *_published(model.published, "Published")),
        grounds=model.notes,
        overline="facts model",
    )


def _shape(answer: ModelAnswer) -> list[list[str]]:
    model = answer.model
    rows = [
        ["layers, width, vocabulary", f"{model.n_layers}, {model.hidden_size}, {model.vocab_size}"],
        ["weights (experts)", f"{model.weight_precision} ({model.expert_precision})"],
    ]
    for mixer, layers in answer.attention.items():
        heads = f"{mixer.n_query_heads} query heads, {mixer.n_kv_heads} KV heads of {mixer.qk_head_dim}"
        heads += f", window {mixer.window}" if mixer.window else ""
        heads += f", latent {mixer.kv_lora_rank}" if mixer.kv_lora_rank else ""
        rows.append([f"{format_count(layers, 'layer')} of {mixer.kind}", heads])
    if (experts := answer.experts) is not None:
        routed = f"{experts['n_experts_active']} of {experts['n_experts']} routed, {experts['n_shared_experts']} shared"
        label = format_count(experts["layers"], "expert layer")
        rows.append([label, f"{routed}, width {experts['expert_width']}"])
    return rows


def _record(answer: FactsAnswer) -> View:
    notes = answer.more.get("notes", ())
    of = answer.more.get("accelerator")
    name = "" if answer.name == answer.id else f": {answer.name}"
    return View(
        title=f"{answer.id}{name} ({answer.kind})",
        headline=headline_words(
            answer.name or answer.id,
            f"{format_count(len(answer.facts), 'fact')} with their sources"
            if answer.facts
            else "no fact is published here",
        ),
        facts=(("Accelerator", str(of)),) if of else (),
        tables=_published(answer.facts, "Facts"),
        grounds=tuple(notes),
        overline="facts show",
        sources=tuple(dict.fromkeys(fact.source for fact in answer.facts.values() if fact.source in load_sources())),
    )


def _published(facts: Mapping[str, Fact], title: str) -> tuple[Table, ...]:
    rows: list[list[str | Cell]] = [
        [
            fact_words(name),
            given_words(fact.given),
            _known(fact.source),
            fact.date,
            f"{fact.locator}. {fact.note}".strip(),
        ]
        for name, fact in facts.items()
    ]
    return (Table(title, ("fact", "value", "source", "date", "where, and why"), rows),) if rows else ()


def _known(source: str) -> Cell:
    """The key of a source with its address."""
    known = load_sources().get(source)
    return Cell(source, "" if known is None else known.url)


def _publisher(source: str) -> Cell:
    """The publisher of a source with its address, or that the fact is an assumption."""
    known = load_sources().get(source)
    if known is None:
        return Cell("assumption" if source == ASSUMPTION else source)
    return Cell(known.publisher, known.url)


def _titled(source: str) -> Cell:
    """A source by its title and key, with its address."""
    known = load_sources().get(source)
    return Cell(source) if known is None else Cell(f"{known.title} ({known.key})", known.url)


def _source(source: Source) -> View:
    return View(
        title=f"{source.key}: {source.title}",
        headline=headline_words(source.key, f"{source.publisher}, {source.date}"),
        warnings=() if source.verified else ("Not read at the source itself: unverified.",),
        facts=(("Address", source.url), *((("Licence", source.license),) if source.license else ())),
        overline="facts show",
        sources=(source.key,),
    )


def _searched(answer: SearchAnswer) -> View:
    """What there is, the records of a kind, or what was found."""
    if answer.known is not None:
        return known_view(answer.known)
    return kind_view(answer.kind, answer.found) if answer.kind else _search(answer)


def _search(answer: SearchAnswer) -> View:
    """What is nearest to the words, first what they ask for by name; what only mentions them is folded."""
    found = answer.found
    if not found:
        return _unfound(answer)
    nearest = [one for one in found if one.nearness == found[0].nearness]
    others = found[len(nearest) :]
    kinds = dict.fromkeys(one.kind for one in nearest)
    tables = [_of_kind(_kinds(kind), [one for one in nearest if one.kind == kind]) for kind in kinds]
    tables += [replace(_of_kind(_OTHERS, others), is_detail=True)] if others else []
    tables.append(_stated_where(found))
    asked = nearest[0] if len(nearest) == 1 or (nearest[0].names_both and _is_one(answer.query, nearest)) else None
    n_found, n_others = format_count(len(nearest), "fact"), f" and {len(others):,} that mention it" if others else ""
    chip, of_chips = accelerator_called(answer.query), _of_chips(nearest)
    if chip is not None and nearest[0].id == chip.id:
        said = _chip_words(chip, nearest, n_found)
    elif of_chips and not asked:
        said = _chips_words(of_chips, n_found)
    else:
        said = headline_words(f"{answer.query!r}", f"{n_found}{n_others}")
    return View(
        _told(asked) if asked else said,
        f"The nearest of {len(found):,} facts found for {answer.query!r}." if asked and len(found) > 1 else "",
        tiles=_tiles(asked, of_chips, nearest, chip),
        tile_heading="",
        plots=(chips_plot(chip),) if chip is not None and nearest[0].id == chip.id else (),
        tables=tuple(tables),
        overline="facts search",
        sources=(asked.fact.source,) if asked and asked.fact.source in load_sources() else (),
    )


def _is_one(query: str, nearest: Sequence[FoundFact]) -> bool:
    """Whether words name one record; those of a family of models name several."""
    first = nearest[0]
    return first.kind != "model" or short_model(first.id).lower() in query.lower().split()


def _unfound(answer: SearchAnswer) -> View:
    """What was probably meant, which leads to that search."""
    return View(
        headline_words(f"{answer.query!r}", "no fact mentions every word of it"),
        f"Did you mean {answer.meant!r}?" if answer.meant else "Try fewer words, or the beginning of one.",
        context_href=address(answer.meant) if answer.meant else "",
    )


def _tiles(
    asked: FoundFact | None, of_chips: Sequence[FoundFact], nearest: Sequence[FoundFact], chip: Accelerator | None
) -> tuple[Tile, ...]:
    """That fact of the accelerators people ask for, or the first of the first record; none of one fact."""
    if of_chips and asked is None:
        return tuple(replace(_tile(one, is_of_many=False), label=_record_name(one)) for one in of_chips)
    some = [] if asked else _of_record(nearest)
    return tuple(_tile(one, chip is None or one.id != chip.id) for one in some)


def _of_chips(found: Sequence[FoundFact]) -> list[FoundFact]:
    """The fact that is found of most accelerators, of those that people ask for; none where one of these lacks it."""
    names = Counter(one.name for one in found if one.kind == "accelerator")
    name, n = names.most_common(1)[0] if names else ("", 0)
    if 2 * n < names.total() or not n:  # the words are those of a chip, not of a fact
        return []
    by_id = {one.id: one for one in found if one.name == name}
    return [by_id[id_] for id_ in _ASKED_FOR] if by_id.keys() >= set(_ASKED_FOR) else []


def _chips_words(of_chips: Sequence[FoundFact], n_found: str) -> str:
    """One fact of several accelerators: what, and how much of each."""
    what = fact_words(of_chips[0].name)
    each = [
        f"{load_accelerator(one.id).short_name} {given_words(one.fact.given).removesuffix(' per GPU-hour')}"
        for one in of_chips
    ]
    return headline_words(f"{what[:1].upper()}{what[1:]}", f"{', '.join(each)} ({n_found})")


def _chip_words(chip: Accelerator, found: Sequence[FoundFact], n_found: str) -> str:
    """What a chip that was searched by its name can do, and how many facts there are of it and what it stands in."""
    memory, rate = words(chip.hbm_bytes.value, "bytes"), words(chip.hbm_bytes_per_s.value, "bytes_per_s")
    given = next((one.fact.given for one in found if one.name == f"peak_flop_per_s.{chip.wide_unit}"), "")
    peak = f"{given_words(given) or words(chip.peak('bf16'), 'flop_per_s')} dense {chip.wide_unit}"
    return headline_words(f"{chip.vendor} {chip.short_name or chip.name}", f"{memory}, {rate}, {peak} ({n_found})")


_OTHERS = "Begin with it, or mention it in a note or source"
#: The accelerators that people ask for, whose facts stand above the tables.
_ASKED_FOR = ("a100-sxm4-80gb", "h100-sxm5-80gb", "h200-sxm5-141gb", "b200-sxm")
#: Letters of a note that stands beside a range.
_SHORT = 40
#: Facts of a record that stand above the tables, at most.
_SHOWN = 4


def _of_record(found: Sequence[FoundFact]) -> list[FoundFact]:
    """The first facts of the first record, where the words name one; of several models one fact of each."""
    if found[0].kind == "model":
        return [one for one in found if one.name == found[0].name][:_SHOWN]
    return [one for one in found if one.id == found[0].id][:_SHOWN]


def _told(one: FoundFact) -> str:
    """The fact that was asked for: what, how much, who says so and when."""
    fact = one.fact
    source = load_sources().get(fact.source)
    said = (
        f"{source.publisher}, {source.title}, {fact.date}" if source else f"an assumption of this project, {fact.date}"
    )
    return headline_words(f"{_record_name(one)}, {fact_words(one.name)}", f"{_value_words(one)}{_range(fact)} ({said})")


def _tile(one: FoundFact, is_of_many: bool) -> Tile:
    """A fact above the tables, with its range and who says so; of several records it names its own."""
    fact, source = one.fact, load_sources().get(one.fact.source)
    said = f"{source.publisher if source else 'assumption'}, {fact.date}"
    text, band = _value_words(one).replace(" ", "\u00a0", 1), f"{_range(fact).strip()} {said}".strip()
    label = fact_words(one.name)
    label = f"{label[:1].upper()}{label[1:]}"
    return Tile(f"{label}, {_record_name(one)}" if is_of_many else label, text, band)


def _range(fact: Fact) -> str:
    """The range over sources, where they disagree."""
    ends = "" if fact.low is None or fact.high is None else span(fact.low, fact.high, fact.unit)
    return f" ({ends.removesuffix('/h')})" if ends else ""  # the value before it says of what hour


def _range_words(fact: Fact) -> str:
    """The range below a value; one that the value ends says what its other end is, where the note is short."""
    said = _range(fact).strip(" ()")
    is_end = fact.value in (fact.low, fact.high)
    return f"{said} ({fact.note})" if said and is_end and 0 < len(fact.note) <= _SHORT else said


def _value_words(one: FoundFact) -> str:
    """A value without its unit where the name of the fact begins with it."""
    said, (unit, *_) = given_words(one.fact.given), fact_words(one.name).split(",")
    return said.removesuffix(f" {unit}")


def _record_name(one: FoundFact) -> str:
    """What a reader calls the record: an edition by its date."""
    if one.kind == "model":
        return short_model(one.record or one.id)
    return one.id if one.kind == "edition" else one.record or one.id


def _of_kind(title: str, found: Sequence[FoundFact]) -> Table:
    """Facts, those of a record together."""
    places = {id_: place for place, id_ in enumerate(dict.fromkeys(one.id for one in found))}
    ordered = sorted(found, key=lambda one: places[one.id])[:_MOST]
    rows: list[list[str | Cell]] = [
        [_record_name(one), _fact_name(one), Cell(_value_words(one), below=_range_words(one.fact)),
         _publisher(one.fact.source), one.fact.date]
        for one in ordered
    ]  # fmt: skip
    rest = f"The first {_MOST} are shown; --json has all of them." if len(found) > _MOST else ""
    columns = ("of", "fact", "value #", "source", "date #")
    return Table(f"{title}: {format_count(len(found), 'fact')}", columns, rows, note=rest, drops=("date", "source"))


def _fact_name(one: FoundFact) -> str:
    """What a fact is called, a chip in it by its name."""
    parts = fact_words(one.name).split(", ")
    return ", ".join(load_accelerator(part).short_name or part if part in accelerator_ids() else part for part in parts)


def _stated_where(found: Sequence[FoundFact]) -> Table:
    """Ids, and the place in each source: for who checks a figure."""
    shown = found[:_MOST]
    rows: list[list[str | Cell]] = [
        [one.id, _fact_name(one), _titled(one.fact.source), _where(one.fact)] for one in shown
    ]
    ids = ", ".join(dict.fromkeys(one.id for one in shown[:_IDS]))
    note = f"computeledger facts show ID has the place in each source and notes; ids: {ids}"
    columns = ("id", "fact", "source", "where, and why")
    title = f"Where each figure stands: {format_count(len(shown), 'fact')}"
    return Table(title, columns, rows, is_detail=True, in_short=Table("", (), (), note=note))


def _where(fact: Fact) -> str:
    """Where a source says it, and what there is to note."""
    return ". ".join(text for text in (fact.locator, fact.note) if text)


def _kinds(kind: str) -> str:
    """Records of a kind, in words."""
    return {"reliability": "Interruptions", "edition": "Price editions"}.get(kind, f"{kind.capitalize()}s")


def _chips(answer: ChipsAnswer) -> View:
    rows = [
        [one.id, format_si(one.hbm_bytes.value, "B"), format_si(one.hbm_bytes_per_s.value, "B/s"),
         format_si(one.peak("bf16"), "FLOP/s"), f"{one.chip_tdp_w.value:.0f}", one.node]
        for one in answer.found
    ]  # fmt: skip
    first = answer.found[0].id
    table = Table("", ("id", "memory #", "reads #", "bf16 #", "W #", "node"), rows,
                  note="bf16: dense, fp16 where there is no bf16; W: thermal design power.")  # fmt: skip
    return View(
        headline_words("Accelerators", f"{len(answer.found)} found"),
        f"--system takes a count of them, such as 2x{first}; facts show {first} has every figure with its source.",
        tables=(table,),
        overline="facts list",
    )


def _diff(answer: DiffAnswer) -> View:
    rows = []
    for one in answer.differences:
        sources = dict.fromkeys(f"{side.source} {side.date}".strip() for side in (one.a, one.b) if side)
        rows.append([fact_words(one.name), _given(one.a), _given(one.b), _change(one.ratio), " → ".join(sources)])
    columns = ("fact", answer.a, answer.b, "change #", "sources")
    n_facts, verb = format_count(len(rows), "fact"), "differs" if len(rows) == 1 else "differ"
    return View(
        title=f"{answer.a} and {answer.b} ({answer.kind})",
        headline=headline_words(
            f"{answer.a} and {answer.b}",
            f"{n_facts} {verb}, {answer.n_equal:,} {'is' if answer.n_equal == 1 else 'are'} equal",
        ),
        tables=(Table("Facts that differ", columns, rows, drops=("sources", "change")),) if rows else (),
        overline="facts diff",
    )


def _given(fact: Stated | None) -> str:
    return given_words(fact.given) if fact else "–"


def _change(ratio: float | None) -> str:
    """A ratio as the change it means."""
    return "" if ratio is None else f"{'+' if ratio > 1 else ''}{format_percent(ratio - 1)}"
