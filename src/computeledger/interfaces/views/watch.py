"""The view of a running server: predicted against actual, what binds, what would help."""

from __future__ import annotations

from dataclasses import replace

from computeledger.interfaces.view import Cell, Evidence, Table, Tile, View
from computeledger.questions.answers.watch.answer import WatchAnswer
from computeledger.questions.answers.watch.compare import Row
from computeledger.questions.wording import headline_words, percent, show, span, words
from computeledger.units import format_count, format_si

#: Figures that stand large; the rest is in the table.
_LARGE = ("output_tokens_per_s", "tpot_s", "ttft_s", "kv_used_fraction")
#: Change in a figure that is worth a setting (assumption) [-].
_WORTH = 0.03


def view(answer: WatchAnswer, _working: bool) -> View:
    """What it does, whether it does what was predicted, and the settings that were tried."""
    return View(
        title=_title(answer),
        asked=(_load(answer),) if answer.load is not None and not answer.silence else (),
        headline=_headline(answer),
        context=_binds(answer),
        tiles=tuple(_tile(one) for one in answer.rows if one.key in _LARGE and one.actual is not None),
        tile_heading="now",
        reference="predicted" if answer.prediction is not None else "",
        tables=tuple(_tables(answer)),
        notes=answer.remarks,
        grounds=tuple(_grounds(answer)),
        overline="watch",
        main="tpot_s",
        evidence=_evidence(answer),
    )


def on_screen(whole: View) -> View:
    """What a screen that is drawn anew every few seconds has room for: no details, and not where things come from."""
    return replace(whole, tables=tuple(one for one in whole.tables if not one.is_detail), grounds=())


def _title(answer: WatchAnswer) -> str:
    if answer.silence:
        return f"{answer.silence[0].upper()}{answer.silence[1:]}"
    models = ", ".join(_visible(one) for one in answer.models)
    runs = f" with {models}" if models else ""
    return f"{answer.engine_name} at {answer.address}{runs}"


def _visible(text: str) -> str:
    """A stranger's text without what a terminal or a reader could be misled by."""
    shortened = text if len(text) <= 80 else f"{text[:80]}..."
    return repr(shortened)[1:-1]


def _load(answer: WatchAnswer) -> str:
    load = answer.load
    if load is None:
        return ""
    read, cached, written = (format_si(one) for one in (load.input_tokens, load.cached_tokens, load.output_tokens))
    span_s = answer.window.duration_s
    over = f" over the last {words(span_s, 's')}" if span_s > 0 else ""
    each = f"per request {read} new input, {cached} cached, {written} output tokens"
    return f"{load.batch:.3g} sequences in flight{over}; {each}"


def _headline(answer: WatchAnswer) -> str:
    subject = f"{answer.engine_name} at {answer.address}"
    if answer.silence:
        return headline_words(subject, answer.silence)
    rate, tpot = answer.row("output_tokens_per_s"), answer.row("tpot_s")
    said = []
    if rate is not None and rate.actual is not None:
        said.append(words(rate.actual, "tokens/s"))
    if tpot is not None and tpot.actual is not None:
        said.append(f"{words(tpot.actual, 's')} per output token")
        if tpot.ratio is not None:
            within = {True: ", inside its 90 % interval", False: ", outside its 90 % interval", None: ""}[tpot.inside]
            said.append(f"{tpot.ratio:.2g} times the prediction{within}")
    if not said:
        running = answer.window.gauges.get("running")
        said = ["no token in this span" if running is None else f"{running:,.3g} requests run"]
    return headline_words(subject, ", ".join(said))


def _binds(answer: WatchAnswer) -> str:
    one = answer.binding
    if one is None:
        return ""
    best = _best(answer)
    each = " for its GPUs" if any(lever.gpus_ratio != 1 for lever in answer.levers) else ""
    helps = "" if best is None else f" Of the settings tried, {best} helps most{each}."
    return f"What binds: {one.what} ({one.why}). Eased by {one.eased_by}.{helps}"


def _best(answer: WatchAnswer) -> str | None:
    """The change that gains most of what is short per GPU: room where the cache binds, output otherwise."""
    is_room = answer.binding is not None and answer.binding.what == "the KV cache"
    gains = {one.name: one.capacity_ratio / one.gpus_ratio if is_room else one.output_ratio for one in answer.levers}
    name = max(gains, key=lambda each: gains[each], default=None)
    return name if name is not None and gains[name] > 1 + _WORTH else None


def _tile(one: Row) -> Tile:
    band = ""
    if one.predicted is not None and one.predicted.p05 != one.predicted.p95:
        band = f"predicted {span(one.predicted.p05, one.predicted.p95, one.unit)}"
    reference = "" if one.predicted is None else words(one.predicted.p50, one.unit)
    value = one.actual or 0.0
    return Tile(one.label, words(value, one.unit), band, value, one.key, reference, unit=one.unit)


def _tables(answer: WatchAnswer) -> list[Table]:
    compared: list[list[str | Cell]] = [
        [one.label, "–" if one.actual is None else show(one.actual, one.unit), *_predicted(one), _verdict(one)]
        for one in answer.rows
    ]
    columns = ("", "actual #", "predicted #", "90 % interval", "actual / predicted #", "verdict")
    note = "; ".join(f"{one.label}: {one.note}" for one in answer.rows if one.note)
    out = [
        Table(
            "Predicted against actual",
            columns,
            compared,
            note=f"{note}." if note else "",
            drops=("actual / predicted",),
        )
    ]
    if times := [_times(name, answer) for name in _told(answer)]:
        out.append(Table("Times of this span", ("", "n #", "mean #", "median #", "p90 #"), times, is_detail=True))
    if answer.levers:
        tried = [
            [
                one.name,
                f"× {one.tpot_ratio:.2f}",
                f"× {one.output_ratio:.2f}",
                f"× {one.capacity_ratio:.2f}",
                f"× {one.gpus_ratio:g}",
                one.setting,
            ]
            for one in answer.levers
        ]
        changes = ("change", "time per token #", "output per GPU #", "room of the cache #", "GPUs #", "setting")
        out.append(Table("What would help, by the prediction", changes, tried, note="Each at the load of now, alone."))
    return out


def _told(answer: WatchAnswer) -> list[str]:
    """Times of this span, of which a server that is silent has none."""
    return [] if answer.silence else [name for name, seen in answer.window.times.items() if seen.count]


def _predicted(one: Row) -> tuple[str, str, str]:
    if one.predicted is None:
        return "–", "", ""
    interval = "" if one.predicted.p05 == one.predicted.p95 else span(one.predicted.p05, one.predicted.p95, one.unit)
    return show(one.predicted.p50, one.unit), interval, "" if one.ratio is None else f"× {one.ratio:.2f}"


def _verdict(one: Row) -> Cell:
    return Cell({True: "inside", False: "outside", None: ""}[one.inside])


_TIMES = {
    "ttft_s": "time to first token", "tpot_s": "time per output token, by request", "gap_s": "gap between tokens",
    "request_s": "whole request", "queue_s": "time in the queue",
}  # fmt: skip


def _times(name: str, answer: WatchAnswer) -> list[str]:
    seen = answer.window.times[name]
    ends = [seen.quantile_s(share) for share in (0.5, 0.9)]
    shown = ["beyond the last bucket" if one is None else show(one, "s") for one in ends]
    return [_TIMES[name], f"{seen.count:,.0f}", show(seen.mean_s, "s"), *shown]


def _grounds(answer: WatchAnswer) -> list[str]:
    known = answer.prediction
    out = []
    if known is not None:
        where = f"{known.layout} on {format_count(known.n_gpus, 'GPU')}, constants of {known.engine}"
        at = format_count(known.load.sequences, "sequence")
        out.append(f"predicted as computeledger serve does: {where}, at {at}")
    if answer.anchor:
        out.append(f"to narrow the next prediction by this measurement: --anchor '{answer.anchor}'")
    out.append(f"names of metrics: {answer.window.engine.source}")
    return out


def _evidence(answer: WatchAnswer) -> Evidence | None:
    judged = [one for one in answer.rows if one.inside is not None]
    if not judged:
        return None
    n_inside = sum(bool(one.inside) for one in judged)
    share = percent(n_inside / len(judged))
    return Evidence(
        f"Measured here: {n_inside} of {len(judged)} predicted quantities ({share}) lie in their intervals."
    )
