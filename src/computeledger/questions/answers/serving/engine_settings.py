"""An engine's own settings in an answer: what was told, what the engine takes by itself, and what follows."""

from __future__ import annotations

from typing import Any

import numpy as np

from computeledger.arrays import median
from computeledger.facts.schema import Accelerator
from computeledger.units import format_count
from computeledger.workloads.engines import engines
from computeledger.workloads.engines.settings import default_of
from computeledger.workloads.questions.serve import ServeQuestion
from computeledger.workloads.serving.estimate import ServingScenario

#: Fields of a question that are settings of an engine, as a document has them.
NAMES = ("max_batch", "chunk_tokens", "memory_fraction", "eager", "no_prefix_cache")


def settings_document(question: ServeQuestion, chip: Accelerator, waiting: float = 0.0) -> dict[str, Any]:
    """Every setting that the engine has: its option, what was stated, and its own default with the source."""
    if question.engine not in engines():
        return {}
    out: dict[str, Any] = {}
    for name, setting in engines()[question.engine].settings.items():
        default = default_of(question.engine, name, chip, question.backend_version)
        stated = getattr(question, name)
        out[name] = {"stated": None if stated is False else stated, "option": setting.option}
        out[name] |= {} if default is None else {"engine_default": default.value, "source": default.source}
    return {"engine_settings": {**out, "waiting_requests": waiting}}


def settings_remarks(question: ServeQuestion, chip: Accelerator, scenario: ServingScenario) -> list[str]:
    """What the settings that were stated do, and where the answer needs one that nobody stated."""
    waiting, batch, out = median(scenario.waiting), median(scenario.batch), []
    if waiting:
        out.append(
            f"{batch:.0f} of {format_count(round(batch + waiting), 'request')} in flight decode; the others wait, and "
            "the time to first token holds their wait"
        )
    if question.eager:
        out.append("a step without captured graphs launches as a prefill does (assumption; fitted on prefills)")
    default = default_of(question.engine, "max_batch", chip, question.backend_version)
    per_rank = float(np.ceil(batch / median(scenario.layout.dp)))
    if default is not None and question.max_batch is None and per_rank > default.value:
        option = engines()[question.engine].settings["max_batch"].option
        out.append(
            f"{question.engine} decodes {default.value:.0f} sequences at once on {chip.id} where nobody says more: "
            f"start it with {option} {per_rank:.0f} ({default.source})"
        )
    return out
