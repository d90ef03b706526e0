"""The question of ``computeledger sweep``: serving over lists of models, systems, precisions and lengths."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from computeledger.errors import InputError
from computeledger.fields import Asked, asked, shared
from computeledger.workloads.questions.serve import ServeQuestion

if TYPE_CHECKING:
    from computeledger.arrays import Uncertain


@dataclass(frozen=True, kw_only=True)
class SweepQuestion(Asked):
    """The best layout and batch for every combination of the lists; figures are medians."""

    model: tuple[str, ...] = shared(ServeQuestion, "model", help="Model ids, or paths.", is_list=True, metavar="A,B")
    system: tuple[str, ...] = shared(
        ServeQuestion, "system", help="System ids, counts (2xl40s), or paths.", is_list=True, metavar="A,B"
    )
    precision: tuple[str, ...] = shared(
        ServeQuestion, "precision", help="Precisions of the weights.", default=(), is_list=True, metavar="P,P",
        blank="as stored",
    )  # fmt: skip
    input_tokens: tuple[float, ...] = shared(
        ServeQuestion, "input_tokens", default=(4096.0,), is_list=True, metavar="I,I"
    )
    output_tokens: tuple[float, ...] = shared(
        ServeQuestion, "output_tokens", default=(1024.0,), is_list=True, metavar="O,O"
    )
    kv_precision: str = shared(ServeQuestion, "kv_precision")
    gpus: int | None = shared(ServeQuestion, "gpus", blank="as many as each layout takes")
    price: Uncertain | None = shared(ServeQuestion, "price")
    tpot: Uncertain | None = shared(ServeQuestion, "tpot", blank="50 ms")
    workers: int | None = asked("whole", "Local processes.", least=1, metavar="N", blank="as many as pay off")
    cluster: str | None = asked("text", "A Dask scheduler instead (extra: cluster).", metavar="tcp://HOST:PORT")
    parquet: str | None = asked("text", "Write every option (extra: parquet).", metavar="FILE")

    def check(self) -> None:
        """Refuse parts that contradict one another."""
        if self.workers is not None and self.cluster is not None:
            raise InputError("--workers and --cluster exclude each other: a cluster has its own workers")
