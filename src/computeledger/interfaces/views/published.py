"""What a model's makers published of its training, beside what the engine gives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from computeledger.facts.schema import Fact
from computeledger.fields import Record
from computeledger.interfaces.view import Cell, Table, cited
from computeledger.questions.wording import interval_words, point, with_interval_words, words
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
    rows: list[list[Any]] = [
        ["pretraining", _hours(first.value), with_interval_words(modelled, ""), cited(first.source, first.locator)],
    ]
    if len(facts) > 1:
        every = "; ".join(fact.locator for fact in facts.values())
        total = _hours(sum(fact.value for fact in facts.values()))
        rows.append([_listed([name.replace("_", " ") for name in facts]), total, "–", cited(first.source, every)])
    columns = ["GPU-hours of", "published #", "modelled here #", "source"]
    return (Table("Published beside modelled", columns, rows, "gpu_hours"),)


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
            Cell(found.source, found.url),
        ]
        for one in found.figures
    ]
    columns = (found.name, "published #", "modelled here #", "source")
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
