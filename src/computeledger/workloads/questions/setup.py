"""What questions about a model on a system have in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from computeledger.errors import InputError
from computeledger.facts.architecture import Lora
from computeledger.fields import MOST_SAMPLES, MOST_SEED, Asked, asked, shared
from computeledger.physics.calibration.serving import DEFAULT_TUNING, ENGINE_TUNINGS
from computeledger.workloads.engines import backends, engines

if TYPE_CHECKING:
    from computeledger.arrays import Uncertain

#: As a command that stays light can say it; a test holds it against the assumption of the physics.
OF_PEAK = "40%"
#: Engines, the default first, and the physical limit.
BACKENDS = backends()


@dataclass(frozen=True, kw_only=True)
class Sampled(Asked):
    """A question whose uncertain inputs are sampled."""

    samples: int = asked("whole", "Samples of uncertain inputs.", 4096, least=1, most=MOST_SAMPLES)
    seed: int = asked("whole", "Seed of the sampling.", 0, most=MOST_SEED)


@dataclass(frozen=True, kw_only=True)
class OnSystem(Sampled):
    """A question about a model on a system."""

    model: str = asked(
        "text", "Model id, path to a config.json, or numbers: 100B-A10B.", ..., label="Model", group="What",
        example="llama-3.1-8b",
    )  # fmt: skip
    system: str = asked(
        "text", "System id, a count (2xl40s, 4xh100-nvl8), or path to a system TOML.", ..., label="System",
        group="What", example="h100-nvl8",
    )  # fmt: skip
    gpus: int | None = asked(
        "whole", "GPUs at hand.", least=1, metavar="N", label="GPUs", group="What", slider=(1, 512),
        blank="as many as the best layout asks for",
    )  # fmt: skip
    layout: str | None = asked(
        "text", "Parallel layout.", metavar="tp8-pp1-dp1-ep1", label="Layout", group="What", blank="searched"
    )
    precision: str | None = asked(
        "text", "bf16, fp8, fp4; to serve also mxfp4, int8, int4, awq, w4a8, gguf-q4_k_m, ...", metavar="P",
        label="Weights", group="How", blank="as stored, bf16 to pretrain",
    )  # fmt: skip
    price: Uncertain | None = asked(
        "usd_per_hour", "Price of a GPU-hour; 0 where it costs you nothing.", unit="$/h", metavar="$/h",
        label="GPU-hour", group="How", slider=(0.5, 20), blank="rent of the price edition",
    )  # fmt: skip


class MayAdapt:
    """A question that may train adapters beside a frozen model."""

    lora_rank: int | None
    lora_targets: str | None

    @property
    def lora(self) -> Lora | None:
        """The adapters; None where the whole model is trained."""
        return None if self.lora_rank is None else Lora(self.lora_rank, self.lora_targets or "all")

    def check_lora(self) -> None:
        """Refuse what is said of adapters that nobody asked for."""
        if self.lora_targets is not None and self.lora_rank is None:
            raise InputError("--lora-targets needs --lora-rank")


#: Settings that not every engine has.
_NOT_EVERYWHERE = ("chunk_tokens", "memory_fraction", "eager")


@dataclass(frozen=True, kw_only=True)
class EngineMemory(Asked):
    """What decides what an engine keeps of the memory: its release and some of its own settings."""

    backend_version: str | None = asked(
        "text", "Release of the engine, such as 0.12.0, or its month, such as 2025-12.", metavar="V",
        label="Engine's release", group="Engine", blank="the newest measured",
    )  # fmt: skip
    memory_fraction: float | None = asked(
        "fraction", "Share of the memory, as the engine means it (--gpu-memory-utilization, --mem-fraction-static, "
        "free_gpu_memory_fraction).", is_open=True, most=1.0, is_single=True, metavar="F", label="Share of memory",
        group="Engine", blank="the engine's own", slider=(0.1, 1),
    )  # fmt: skip
    chunk_tokens: int | None = asked(
        "whole", "Prompt tokens that a rank takes per step at most (--max-num-batched-tokens, --chunked-prefill-size, "
        "max_num_tokens).", least=16, metavar="N", label="Chunk of prompts", group="Engine", blank="8192",
        slider=(256, 65536),
    )  # fmt: skip
    eager: bool = asked(
        "switch", "Decode kernel by kernel, without captured graphs (--enforce-eager, --disable-cuda-graph).", False,
        label="Without graphs", group="Engine",
    )  # fmt: skip

    @property
    def has_settings(self) -> bool:
        """Whether a setting is given that not every engine has."""
        return any(getattr(self, name) for name in _NOT_EVERYWHERE)

    def unknown_settings(self, engine: str) -> list[str]:
        """Names of the settings given that an engine does not have."""
        own = engines()[engine].settings if engine in engines() else None
        return [name for name in _NOT_EVERYWHERE if getattr(self, name) and own is not None and name not in own]

    def check_settings(self, engine: str) -> None:
        """Refuse settings that an engine does not have."""
        for name in self.unknown_settings(engine):
            raise InputError(f"--{name.replace('_', '-')}: no such setting of {engine} is known: leave it out")


@dataclass(frozen=True, kw_only=True)
class EngineRun(EngineMemory):
    """How an engine is run: whose tuning, and the rest of its own settings."""

    tuning: str = asked(
        "text", "Whose deployment: as other people's measurements show it, launched as the engine's or the chip's "
        "makers publish for this model and chip, or tuned like the public InferenceX recipes.", DEFAULT_TUNING,
        choices=ENGINE_TUNINGS, label="Tuning", group="Engine",
    )  # fmt: skip
    max_batch: int | None = asked(
        "whole", "Sequences that a replica decodes at once at most; further ones wait (vLLM: --max-num-seqs, SGLang: "
        "--max-running-requests, TensorRT-LLM: max_batch_size).", least=1, metavar="B", label="Sequences at most",
        group="Engine", blank="what memory holds", slider=(1, 4096),
    )  # fmt: skip
    no_prefix_cache: bool = asked(
        "switch", "Prefill every prompt in full (--no-enable-prefix-caching, --disable-radix-cache).", False,
        label="Without prefix cache", group="Engine",
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Simulated(Asked):
    """A question that is answered by simulations."""

    workers: int = asked("whole", "Processes for several simulations.", 1, least=1, metavar="N")
    cluster: str | None = asked("text", "Dask scheduler for several simulations.", metavar="tcp://HOST:PORT")
    seed: int = shared(Sampled, "seed", help="Seed of the simulation.")

    def check(self) -> None:
        """Refuse two places to compute."""
        if self.workers > 1 and self.cluster is not None:
            raise InputError("--workers and --cluster contradict each other: give one of them")
