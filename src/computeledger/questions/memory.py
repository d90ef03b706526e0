"""The question of ``computeledger memory``: what of a model fits where."""

from __future__ import annotations

from dataclasses import dataclass

from computeledger.fields import asked, shared
from computeledger.workloads.questions.adapters import Adapting
from computeledger.workloads.questions.images import WithImages
from computeledger.workloads.questions.serve import ServeQuestion
from computeledger.workloads.questions.setup import EngineMemory


@dataclass(frozen=True, kw_only=True)
class MemoryQuestion(EngineMemory, Adapting, WithImages):
    """On how few GPUs a model fits, by format and system, and what takes the memory."""

    model: str = shared(ServeQuestion, "model")
    system: tuple[str, ...] = asked(
        "text", "System ids, or paths.", (), is_list=True, metavar="A,B", label="Systems", group="What",
        blank="domains of several generations",
    )  # fmt: skip
    precision: tuple[str, ...] = shared(
        ServeQuestion, "precision", help="Formats of the weights, as `serve` takes them.", default=(), is_list=True,
        metavar="P,P", blank="as stored, fp8, int4 and gguf-q4_k_m where narrower",
    )  # fmt: skip
    context_tokens: int = asked(
        "whole", "Tokens that a sequence holds at its end, those of images among them.", 8192, least=1, metavar="N",
        label="Context", group="Load", slider=(256, 131072),
    )  # fmt: skip
    batch: int = asked(
        "whole", "Sequences held at once by a replica.", 1, least=1, metavar="B", label="Batch", group="Load",
        slider=(1, 1024),
    )  # fmt: skip
    kv_precision: str = shared(ServeQuestion, "kv_precision")
    backend: str | None = shared(ServeQuestion, "backend", blank="vllm, llama.cpp for its files and on Macs")
    gpus: int | None = shared(ServeQuestion, "gpus", blank="as few as hold it")
