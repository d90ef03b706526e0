"""What a model's makers published of its training, beside what the engine gives."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from computeledger.facts.schema import Fact
from computeledger.fields import Record
from computeledger.frontier.epoch_files import shipped_runs
from computeledger.interfaces.view import Cell, Table, cited
from computeledger.questions.wording import interval_words, percent, point, with_interval_words, words
from computeledger.units import format_si
from computeledger.validation.published.real_systems import real_system_of

#: Phases of a published training run, in its order.
_PHASES = ("pretraining", "context_extension", "post_training")


def published_hours(known: Mapping[str, Fact], modelled: Any) -> tuple[Table, ...]:
    """GPU-hours of a model's published run beside the modelled ones; empty where nothing was published.

    Examples
    --------
    >>> from computeledger.facts.load import load_model
    >>> table, = published_hours(load_model("deepseek-ai/DeepSeek-V3").published, 2.88e6)
    >>> [row[1] for row in table.rows]
    ['2.664M', '2.788M']
    >>> published_hours(load_model("Qwen/Qwen3-8B").published, 1e5)
    ()
    """
    facts = {phase: known[f"gpu_hours_{phase}"] for phase in _PHASES if f"gpu_hours_{phase}" in known}
    if "pretraining" not in facts:
        return ()
    first = facts["pretraining"]
    here = with_interval_words(modelled, "")
    rows: list[list[Any]] = [
        ["pretraining", _hours(first.value), here, off_words(point(modelled), first.value),
         cited(first.source, first.locator)],
    ]  # fmt: skip
    if len(facts) > 1:
        every = "; ".join(fact.locator for fact in facts.values())
        total = _hours(sum(fact.value for fact in facts.values()))
        rows.append([_listed([name.replace("_", " ") for name in facts]), total, "–", "–", cited(first.source, every)])
    columns = ["GPU-hours of", "published #", "modelled here #", "off by #", "source"]
    return (Table("Published beside modelled", columns, rows, "gpu_hours", is_detail=True),)


def published_run(known: Mapping[str, Fact], modelled: Any, chip: str) -> str:
    r"""What the makers published of a run on this chip, in words; empty where they name another chip or none.

    Examples
    --------
    >>> from computeledger.facts.load import load_model
    >>> known = load_model("deepseek-ai/DeepSeek-V3").published
    >>> published_run(known, 2.7e6, "H800").replace(chr(160), " ")
    'Published: 2.66M GPU-hours; modelled without failures: 2.7M (+1.4 %).'
    >>> published_run(known, {"p05": 1e6, "p50": 1.3e6, "p95": 1.7e6}, "H800").partition(". ")[2]
    'The published figure is outside the 90\xa0% range: why is not known.'
    >>> published_run(known, 2.7e6, "H100")
    ''
    """
    fact = known.get("gpu_hours_pretraining")
    if fact is None or not re.search(rf"(?<!\w){re.escape(chip)}(?!\w)", f"{fact.locator} {fact.note}"):
        return ""
    here, off = format_si(point(modelled)), off_words(point(modelled), fact.value, 2)
    said = f"Published: {format_si(fact.value)} GPU-hours; modelled without failures: {here} ({off})."
    return f"{said}{_beyond(fact, modelled)}"


def _beyond(fact: Fact, modelled: Any) -> str:
    """That a published figure lies outside of what is modelled, and what it counts where that is known."""
    if not isinstance(modelled, Mapping) or modelled["p05"] <= fact.value <= modelled["p95"]:
        return ""
    more = fact.note.partition("; ")[2]
    why = f"it counts {more}, the estimate one run" if more else "why is not known"
    return f" The published figure is outside the 90\u00a0% range: {why}."


def gpus_of_run(known: Mapping[str, Fact]) -> float | None:
    """GPUs of the model's own training run, by the list of runs that its training FLOP are from; None where unknown.

    Examples
    --------
    >>> from computeledger.facts.load import load_model
    >>> [gpus_of_run(load_model(name).published) for name in ("deepseek-ai/DeepSeek-V3", "Qwen/Qwen3-8B")]
    [2048.0, None]
    """
    fact = known.get("training_flop")
    return None if fact is None else next((one.n_chips for one in shipped_runs() if one.name == fact.locator), None)


def off_words(modelled: float, published: float, digits: int = 3) -> str:
    """How far a modelled figure is from the published one, and to which side.

    Examples
    --------
    >>> off_words(110.0, 100.0).split()
    ['+10', '%']
    """
    off = modelled / published - 1
    return f"{'+' if off > 0 else chr(0x2212)}{percent(abs(off), digits)}"


def published_system(question: Record, command: str, document: Mapping[str, Any]) -> tuple[Table, ...]:
    """Figures that the makers of a real system published beside ours, where the question states that system.

    Examples
    --------
    >>> from computeledger.workloads.questions.serve import ServeQuestion
    >>> published_system(ServeQuestion(model="qwen3-8b", system="h100-nvl8"), "serve", {})
    ()
    """
    found = real_system_of(question, command)
    if found is None:
        return ()
    rows: list[list[str | Cell]] = [
        [
            one.label,
            _shown(one.value, one.unit),
            _modelled(_at(document, one.key), one.unit),
            off_words(point(_at(document, one.key)), one.value),
            Cell(found.source, found.url),
        ]
        for one in found.figures
    ]
    columns = (found.name, "published #", "modelled here #", "off by #", "source")
    return (Table("Published beside modelled", columns, rows, note=found.note),)


def _shown(value: float, unit: str) -> str:
    """A published figure; GPUs are counted."""
    return f"{value:,.0f} GPUs" if unit == "GPUs" else words(value, unit)


def _modelled(value: Any, unit: str) -> Cell:
    return Cell(_shown(point(value), unit), below=interval_words(value, unit))


def _at(document: Mapping[str, Any], key: str) -> Any:
    """A value of a document, by the names that lead to it."""
    value: Any = document
    for name in key.split("."):
        value = value[name]
    return value


def _listed(names: list[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1].replace('post training', 'post-training')}"


def _hours(value: float) -> str:
    return format_si(value, "", 4)
