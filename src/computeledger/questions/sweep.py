"""The question of ``computeledger sweep``: serving over lists of models, systems, precisions and lengths."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from computeledger.errors import InputError
from computeledger.fields import asked, shared
from computeledger.workloads.questions.adapters import Adapting
from computeledger.workloads.questions.images import WithImages
from computeledger.workloads.questions.serve import ServeQuestion
from computeledger.workloads.questions.setup import EngineRun
from computeledger.workloads.questions.structured import Structured

if TYPE_CHECKING:
    from computeledger.arrays import Uncertain


@dataclass(frozen=True, kw_only=True)
class SweepQuestion(EngineRun, Adapting, WithImages, Structured):
    """The best layout and batch for every combination of the lists; figures are medians."""

    model: tuple[str, ...] = shared(ServeQuestion, "model", help="Model ids, or paths.", is_list=True, metavar="A,B")
    system: tuple[str, ...] = shared(
        ServeQuestion, "system", help="System ids, counts (2xl40s), or paths.", is_list=True, metavar="A,B"
    )
    precision: tuple[str, ...] = shared(
        ServeQuestion, "precision", help="Precisions of the weights.", default=(), is_list=True, metavar="P,P",
        blank="as stored",
    )  # fmt: skip
    workload: str | None = shared(ServeQuestion, "workload")
    input_tokens: tuple[float, ...] = shared(
        ServeQuestion, "input_tokens", default=(4096.0,), is_list=True, metavar="I,I", takes_spread=False,
        help="New input tokens of a request.",
    )  # fmt: skip
    output_tokens: tuple[float, ...] = shared(
        ServeQuestion, "output_tokens", default=(1024.0,), is_list=True, metavar="O,O", takes_spread=False,
        help="Output tokens of a request.",
    )  # fmt: skip
    kv_precision: str = shared(ServeQuestion, "kv_precision")
    gpus: int | None = shared(ServeQuestion, "gpus", blank="as many as each layout takes")
    price: Uncertain | None = shared(ServeQuestion, "price")
    tpot: Uncertain | None = shared(
        ServeQuestion,
        "tpot",
        blank="50 ms",
        takes_quantile=False,
        help="Longest acceptable time per output token, such as 50ms.",
    )
    backend: str | None = shared(ServeQuestion, "backend", blank="as in `serve`")
    profile: str | None = shared(ServeQuestion, "profile")
    anchor: tuple[str, ...] = shared(ServeQuestion, "anchor")
    two_batches: bool = shared(ServeQuestion, "two_batches")
    redundant_experts: int = shared(ServeQuestion, "redundant_experts")
    speculation: str | None = shared(ServeQuestion, "speculation")
    draft_tokens: float = shared(ServeQuestion, "draft_tokens")
    tokens_per_step: float | None = shared(ServeQuestion, "tokens_per_step")
    workers: int | None = asked("whole", "Local processes.", least=1, metavar="N", blank="as many as pay off")
    cluster: str | None = asked("text", "A Dask scheduler instead (extra: cluster).", metavar="tcp://HOST:PORT")
    parquet: str | None = asked("text", "Write every option (extra: parquet).", metavar="FILE")

    def check(self) -> None:
        """Refuse parts that contradict one another."""
        super().check()
        if self.workers is not None and self.cluster is not None:
            raise InputError("--workers and --cluster exclude each other: a cluster has its own workers")
        if self.profile is not None and (self.backend or self.anchor):
            raise InputError("--profile: a machine's own kernels have no engine and nothing to anchor")
        for name in ("model", "system", "precision") if self.anchor else ():
            if len(given := getattr(self, name)) > 1:
                raise InputError(
                    f"--anchor measures one deployment, --{name} lists {len(given)}: sweep them one at a time, each "
                    "with an anchor of its own"
                )
