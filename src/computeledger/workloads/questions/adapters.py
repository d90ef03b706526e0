"""What a question says of LoRA adapters that are served: how many, how large, and how many an engine holds."""

from __future__ import annotations

from dataclasses import dataclass, replace

from computeledger.errors import InputError
from computeledger.facts.architecture import Lora, ServedLoras
from computeledger.fields import Asked, asked, shared
from computeledger.workloads.questions.pretrain import PretrainQuestion
from computeledger.workloads.questions.setup import MayAdapt

#: Adapters that a question may name, and the largest exponent of their popularity.
MOST_ADAPTERS, MOST_EXPONENT = 100_000, 10.0
#: Fields that mean nothing without adapters.
_OF_ADAPTERS = ("lora_rank", "lora_targets", "max_loras", "adapter_zipf")


@dataclass(frozen=True, kw_only=True)
class Adapting(MayAdapt, Asked):
    """An engine that may serve LoRA adapters beside the weights."""

    adapters: int = asked(
        "whole", "LoRA adapters that requests name, each request one.", 0, least=0, most=MOST_ADAPTERS, metavar="N",
        label="Adapters", group="Adapters",
    )  # fmt: skip
    lora_rank: int | None = shared(
        PretrainQuestion, "lora_rank", help="Rank of the adapters: the engine's largest (--max-lora-rank), at which it "
        "holds and multiplies all.", blank="none", label="LoRA rank", group="Adapters",
    )  # fmt: skip
    lora_targets: str | None = shared(PretrainQuestion, "lora_targets", label="LoRA layers", group="Adapters")
    max_loras: int | None = asked(
        "whole", "Adapters that an engine holds on its chips, and takes into a batch, at once (vLLM: --max-loras, "
        "SGLang: --max-loras-per-batch); the others are in host memory.", least=1, most=MOST_ADAPTERS, metavar="N",
        label="Adapters at once", group="Adapters", blank="all of them",
    )  # fmt: skip
    adapter_zipf: float = asked(
        "ratio", "How the adapters' popularity differs: the i-th gets requests in ratio i^-S; 0: all as many "
        "(assumption).", 0.0, most=MOST_EXPONENT, is_single=True, metavar="S", label="Popularity's exponent",
        group="Adapters",
    )  # fmt: skip

    @property
    def served_lora(self) -> Lora | None:
        """The adapters that are served; None where there are none."""
        lora = self.lora
        if not self.adapters or lora is None:
            return None
        slots = min(self.max_loras or self.adapters, self.adapters)
        return replace(lora, served=ServedLoras(self.adapters, slots, self.adapter_zipf))

    def check(self) -> None:
        """Refuse adapters without a rank, and what is said of adapters that are not there."""
        super().check()
        if self.adapters:
            if self.lora_rank is None:
                raise InputError(f"--adapters {self.adapters}: of which rank? add --lora-rank, such as --lora-rank 16")
            return
        named = next((name for name in _OF_ADAPTERS if getattr(self, name)), None)
        if named is not None:
            raise InputError(f"--{named.replace('_', '-')}: of how many adapters? add --adapters, such as --adapters 8")
