"""The question of ``computeledger pretrain``: how long a training run takes, what binds it, and what it costs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from computeledger.errors import InputError
from computeledger.fields import asked
from computeledger.physics.calibration.serving import DEFAULT_TUNING, TUNINGS
from computeledger.physics.training.host import parse_offload
from computeledger.physics.training.optimizers import OPTIMIZERS, load_optimizer
from computeledger.workloads.frameworks import USUAL_STACK, framework_ids, load_framework
from computeledger.workloads.questions.setup import MayAdapt, OnSystem

if TYPE_CHECKING:
    from computeledger.arrays import Uncertain

OBJECTIVES = ("time", "gpu-hours")
#: Frameworks that a layout is written for, and the framework whose times each goes with.
EMITTED = {
    "megatron": "megatron-lm", "megatron-bridge": "megatron-bridge", "torchtitan": "torchtitan", "maxtext": "maxtext",
    "deepspeed": "deepspeed", "fsdp2": "fsdp2",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class PretrainQuestion(MayAdapt, OnSystem):
    """Pretrain a model: time of a step, days, GPU-hours and cost at a layout, or at the best one."""

    gpus: int | None = asked(
        "whole", "GPUs of the job.", least=1, metavar="N", label="GPUs", group="What", slider=(8, 32768),
        blank="those of the layout, or one scale-up domain",
    )  # fmt: skip
    precision: str = asked(
        "text", "bf16, fp8 (mxfp8) or fp4 (nvfp4).", "bf16", metavar="P", label="Precision", group="How"
    )
    framework: str = asked(
        "text", "Training framework: its kernels, what it shards and overlaps, its names of the layout.", USUAL_STACK,
        choices=framework_ids(), label="Framework", group="How",
    )  # fmt: skip
    tuning: str = asked(
        "text", "As people usually run it, or as vendors tune it for their own tables.", DEFAULT_TUNING,
        choices=TUNINGS, label="Tuning", group="How",
    )  # fmt: skip
    tokens: Uncertain = asked(
        "tokens", "Tokens of the run.", 1e12, unit="tokens", is_open=True, metavar="D", blank="1T",
        label="Tokens of the run", group="Run", slider=(2e9, 1e14),
    )  # fmt: skip
    sequence_tokens: Uncertain = asked(
        "tokens", "Length of a sequence; 8K is 8,000, not 8,192.", 4096.0, unit="tokens", is_open=True, metavar="S",
        label="Sequence", group="Run", slider=(512, 131072), aliases=("sequence",),
    )  # fmt: skip
    global_batch_tokens: Uncertain = asked(
        "tokens", "Tokens per optimizer step.", 4e6, unit="tokens", is_open=True, metavar="T", blank="4M",
        label="Global batch", group="Run", slider=(65536, 2e8), aliases=("global_batch",),
    )  # fmt: skip
    stage: tuple[str, ...] = asked(
        "texts", "A part of the run that differs, such as until=250B,global_batch=4M or from=14T,sequence=128K,"
        "layout=tp8-cp16; may be repeated, in order.", (), metavar="S", label="Stages", group="Run", blank="none",
        example="until=250B,global_batch=4M",
    )  # fmt: skip
    unique_tokens: float | None = asked(
        "tokens", "Fresh tokens; beyond them data repeat.", unit="tokens", is_open=True, is_single=True, metavar="U",
        label="Fresh tokens", group="Run", blank="no data repeat",
    )  # fmt: skip
    documents: str | None = asked(
        "text", "Lengths of documents: p50=800,p95=8K (and longest=...), or a file of lengths, one a line.",
        metavar="LENGTHS", label="Documents", group="Run", blank="one in each sequence",
    )  # fmt: skip
    packing: str | None = asked(
        "text", "Several documents in a sequence, masked from one another or joined, or one padded to its end.",
        choices=("masked", "joined", "padded"), label="Packing", group="Run", blank="masked, with --documents",
    )  # fmt: skip
    loss_fraction: float | None = asked(
        "fraction", "Tokens that carry loss; prompts do not.", is_open=True, most=1.0, is_single=True, metavar="F",
        label="Tokens with loss", group="Run", blank="all",
    )  # fmt: skip
    microbatch_sequences: int | None = asked(
        "whole",
        "Sequences per microbatch.",
        least=1,
        metavar="M",
        blank="searched",
        aliases=("microbatch",),
    )
    recompute: str | None = asked(
        "text", "none, selective, full, selective-op (PyTorch's, by operation), reversible (layers made for it), or "
        "operations: core_attn, layernorm, mla_up_proj, moe_act.", metavar="WHAT",
        label="Recompute", group="Memory", blank="searched",
    )  # fmt: skip
    virtual_stages: int | None = asked(
        "whole", "Interleaved chunks of the model per pipeline stage.", least=1, metavar="V", blank="searched"
    )
    schedule: str = asked(
        "text", "Pipeline schedule.", "1f1b", choices=("1f1b", "zero-bubble", "dualpipe", "any"), label="Schedule",
        group="How",
    )  # fmt: skip
    sharding: str | None = asked(
        "text", "What data-parallel ranks share: zero-1 the optimizer, zero-2 gradients too, zero-3 weights too.",
        choices=("zero-1", "zero-2", "zero-3"), label="Sharding", group="How", blank="searched",
    )  # fmt: skip
    activation_precision: str = asked(
        "text", "Precision of activations kept for the backward pass and dispatched to experts.", "bf16",
        choices=("bf16", "fp8"), label="Kept activations", group="Memory",
    )  # fmt: skip
    moment_precision: str = asked(
        "text", "Precision of the optimizer's two moments.", "fp32", choices=("fp32", "bf16"),
        label="Optimizer's moments",
        group="Memory",
    )  # fmt: skip
    optimizer: str = asked(
        "text", "What updates the weights: its memory, arithmetic and traffic.", "adamw", choices=OPTIMIZERS,
        label="Optimizer", group="Memory",
    )  # fmt: skip
    offload: str | None = asked(
        "text", "What stays in the host's memory: activations, optimizer, weights.", metavar="WHAT,...",
        label="In host memory", group="Memory", blank="nothing",
    )  # fmt: skip
    recipe: str | None = asked(
        "text", "Scales of 8- and 4-bit products: one per tensor, row or block.", choices=("tensor", "row", "block"),
        label="Scales of 8-bit products", group="How", blank="tensor; block for mxfp8 and nvfp4",
    )  # fmt: skip
    expert_imbalance: Uncertain = asked(
        "ratio", "Routed tokens of the busiest rank over the mean; 1 where routing is forced to be balanced.", 1.0,
        least=1.0, metavar="X", label="Busiest experts", group="How",
    )  # fmt: skip
    capacity_factor: Uncertain | None = asked(
        "ratio", "What experts take at most, over the mean; tokens beyond it are dropped.", is_open=True, metavar="C",
        label="Capacity factor", group="How", blank="no token is dropped",
    )  # fmt: skip
    mtp_layers: int | None = asked(
        "whole", "Multi-token-prediction modules trained with the model.", least=1, metavar="N",
        label="Multi-token-prediction modules", group="How", blank="none",
    )  # fmt: skip
    residual_streams: float | None = asked(
        "ratio", "Residual streams that layers read and hand to the next stage: more than one with hyper-connections, "
        "or where layers read blocks before the last.", least=1.0, most=256.0, is_single=True, metavar="N",
        label="Residual streams", group="How", blank="one",
    )  # fmt: skip
    lora_rank: int | None = asked(
        "whole", "Train LoRA adapters of this rank; the model is frozen.", least=1, metavar="R", blank="the whole model"
    )
    lora_targets: str | None = asked(
        "text", "Adapters of attention, or of all, dense MLPs too.", choices=("attention", "all"),
        blank="all, with --lora-rank",
    )  # fmt: skip
    interruptions_per_gpu_year: Uncertain | None = asked(
        "count", "Unexpected stops per GPU and year.", metavar="F", blank="as published"
    )
    checkpoint_pause: Uncertain | None = asked(
        "s", "How long a checkpoint stops training.", unit=None, is_open=True, metavar="T", blank="assumed"
    )
    checkpoint_interval: Uncertain | None = asked(
        "s", "Training between two checkpoints.", unit=None, is_open=True, metavar="T", blank="the best one"
    )
    restart: Uncertain | None = asked(
        "s", "From a failure to training again.", unit=None, is_open=True, metavar="T", blank="assumed"
    )
    stragglers: Uncertain | None = asked(
        "fraction", "Time that slow hosts add to a step.", most=1.0, metavar="F", blank="assumed"
    )
    step_jitter: Uncertain | None = asked(
        "fraction", "Standard deviation of one GPU's step over its mean: all wait for the slowest.", most=1.0,
        metavar="F", blank="as --stragglers says",
    )  # fmt: skip
    sites: int | None = asked(
        "whole", "Sites that share the data-parallel ranks.", least=2, metavar="N", label="Sites", group="Sites",
        blank="one",
    )  # fmt: skip
    site_bandwidth: float | None = asked(
        "bytes_per_s", "What leaves one site for the others, per direction.", unit=None, is_open=True, is_single=True,
        metavar="800Gb/s", label="Between sites", group="Sites", blank="none: --sites needs it",
    )  # fmt: skip
    site_latency: float | None = asked(
        "s", "One way between two sites.", unit=None, is_single=True, metavar="T", blank="20 ms, with --sites",
    )  # fmt: skip
    local_steps: int | None = asked(
        "whole", "Steps between two exchanges of sites (DiLoCo).", least=1, metavar="H", label="Local steps",
        group="Sites", blank="1, with --sites",
    )  # fmt: skip
    objective: str = asked("text", "What the search minimises.", "time", choices=OBJECTIVES)
    top: int = asked("whole", "Layouts to list.", 10, least=1, metavar="K")
    scaling: bool = asked("switch", "Strong and weak scaling around the number of GPUs.", False)
    growing_batch: bool = asked("switch", "A batch that grows with the critical batch, phase by phase.", False)
    levers: bool = asked("switch", "What each lever of memory frees, and its price in time.", False, label="Levers",
                         group="Run")  # fmt: skip
    anchor: tuple[str, ...] = asked(
        "texts", "Your own measurement, of this size or a smaller one: tokens_per_s_per_gpu=4200,layout=tp2-dp4, or a "
        "line or file of a log of Megatron-LM, Megatron-Bridge, NeMo, MaxText, DeepSpeed or torchtitan with what it "
        "lacks: run.log,layout=tp8; may be repeated.", (), metavar="A", label="Your measurements", group="How",
        blank="none",
        example="tokens_per_s_per_gpu=4200,layout=tp2-dp4",
    )  # fmt: skip
    emit: str | None = asked(
        "text", "Print the arguments or the file that tells a framework the layout.", choices=tuple(EMITTED)
    )

    @property
    def stack(self) -> str:
        """The framework that the job runs on: the one that is named, else the one that a launch is written for."""
        return EMITTED[self.emit] if self.emit is not None and self.framework == USUAL_STACK else self.framework

    @property
    def launcher(self) -> str:
        """Whose options bound the search: ``--emit``'s, else the framework's own; empty where none is written."""
        return self.emit or next((name for name, framework in EMITTED.items() if framework == self.framework), "")

    def check(self) -> None:
        """Refuse fields that contradict one another."""
        if self.layout is not None and self.objective == "gpu-hours":
            raise InputError("--objective gpu-hours searches the number of GPUs: it does not go with --layout")
        if self.schedule not in ("1f1b", "any") and (self.virtual_stages or 1) > 1:
            raise InputError(f"--virtual-stages: a {self.schedule} schedule has no virtual stages")
        if self.offload is not None:
            away = parse_offload(self.offload)
            if "weights" in away and (self.sharding or load_framework(self.framework).sharding) != "zero-3":
                raise InputError("--offload weights: they are fetched layer by layer: it needs --sharding zero-3")
            if "optimizer" in away and load_optimizer(self.optimizer).needs_matrices:
                allowed = ", ".join(one for one in OPTIMIZERS if not load_optimizer(one).needs_matrices)
                raise InputError(
                    f"--offload optimizer: {self.optimizer} multiplies whole matrices, for which a host's cores are "
                    f"too slow; allowed: {allowed}"
                )
        if self.emit is not None and self.framework not in (USUAL_STACK, EMITTED[self.emit]):
            raise InputError(
                f"--emit {self.emit}: times and defaults are those of --framework {self.framework}: give --framework "
                f"{EMITTED[self.emit]}, or leave it out"
            )
        self._check_beside()
        self.check_lora()

    def _check_beside(self) -> None:
        """Refuse fields that need another one, or say the same."""
        if self.sites is not None and self.site_bandwidth is None:
            raise InputError("--sites needs --site-bandwidth, such as 800Gb/s: what leaves one site for the others")
        for name in ("site_bandwidth", "site_latency", "local_steps"):
            if self.sites is None and getattr(self, name) is not None:
                raise InputError(f"--{name.replace('_', '-')} needs --sites")
        if self.packing is not None and self.documents is None:
            raise InputError("--packing needs --documents, such as p50=800,p95=8K")
        if self.step_jitter is not None and self.stragglers is not None:
            raise InputError("--step-jitter and --stragglers say the same: give one of them")
