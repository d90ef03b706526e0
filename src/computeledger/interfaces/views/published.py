"""What a model's makers published of its training, beside what the engine gives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from computeledger.facts.schema import Fact
from computeledger.interfaces.view import Table, cited
from computeledger.questions.wording import interval_words, point
from computeledger.units import format_si

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
        ["pretraining", _hours(first.value), _said(modelled), cited(first.source, first.locator)],
    ]
    if len(facts) > 1:
        every = "; ".join(fact.locator for fact in facts.values())
        total = _hours(sum(fact.value for fact in facts.values()))
        rows.append([_listed([name.replace("_", " ") for name in facts]), total, "–", cited(first.source, every)])
    columns = ["GPU-hours of", "published #", "modelled here #", "source"]
    return (Table("Published beside modelled", columns, rows, "gpu_hours"),)


def _listed(names: list[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1].replace('post training', 'post-training')}"


def _hours(value: float) -> str:
    return format_si(value, "", 4)


def _said(value: Any) -> str:
    band = interval_words(value, "").replace("\u00a0", " ")
    return f"{format_si(point(value))} ({band})" if band else format_si(point(value))
