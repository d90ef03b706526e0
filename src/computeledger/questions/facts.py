"""The question of ``computeledger facts model``: what a model's configuration says."""

from __future__ import annotations

from dataclasses import dataclass

from computeledger.fields import Asked, asked, shared
from computeledger.workloads.questions.serve import ServeQuestion


@dataclass(frozen=True, kw_only=True)
class ModelQuestion(Asked):
    """A model's parameters, cache and shape, read from its configuration."""

    model: str = asked("text", "Model id, path to a config.json, or numbers: 100B-A10B.", ..., metavar="PATH_OR_ID")
    kv_precision: str = shared(ServeQuestion, "kv_precision")
