"""What one training step sees, and the software that runs it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import combinations

import numpy as np

from computeledger.arrays import Num
from computeledger.bounds import AT_LEAST_ONE, FRACTION, POSITIVE, check_record
from computeledger.errors import InputError, nearest
from computeledger.facts.architecture import Lora, Model
from computeledger.physics.adapters import adapter_params
from computeledger.physics.calibration.serving import DEFAULT_TUNING
from computeledger.physics.parallelism import Layout
from computeledger.physics.training.documents import Documents
from computeledger.physics.transformer import n_params_total

#: What any model can do, and what needs layers made for it, so that no search proposes it.
RECOMPUTE, REVERSIBLE = ("none", "selective", "full"), "reversible"
#: Operations that may be named instead of a mode, as Megatron Core names them: attention between its products, norms,
#: MLA's up-projections, and what stands between the two products of an expert.
RECOMPUTED = ("core_attn", "layernorm", "mla_up_proj", "moe_act")
#: PyTorch's checkpointing by operation, torchtitan's ``selective`` of option ``op``: attention and every second product
#: of a layer keep their outputs, all else is computed again.
BY_OPERATION = "selective-op"
#: Forward passes of the layers that a mode runs once more. By operation it is the key, output and up projections: 4.75
#: of the 13 squares of the width in Llama 3.1 8B's products, 4.63 of 12.75 in 70B's; attention is kept.
FORWARD_AGAIN = {"full": 1.0, REVERSIBLE: 1.0, BY_OPERATION: 0.36}
#: Every mode, and every set of operations.
RECOMPUTE_CHOICES = (
    *RECOMPUTE,
    REVERSIBLE,
    BY_OPERATION,
    *(",".join(some) for n in range(1, len(RECOMPUTED) + 1) for some in combinations(RECOMPUTED, n)),
)
#: What data-parallel ranks divide among them: the optimizer, gradients as well, weights as well.
SHARDING = ("zero-1", "zero-2", "zero-3")
#: Scaling of 8- and 4-bit products: one scale per tensor, per row, or per block.
RECIPES = ("tensor", "row", "block")
#: Precisions of kept activations, and of the optimizer's moments.
ACTIVATIONS, MOMENTS = ("bf16", "fp8"), ("fp32", "bf16")
#: Share of the plain pipeline bubble that a schedule leaves: zero-bubble moves weight gradients into it; DualPipe
#: feeds both ends and overlaps a forward with a backward.
BUBBLE_RATIOS = {"1f1b": 1.0, "zero-bubble": 1 / 3, "dualpipe": 0.5}


#: An fp32 gradient.
GRADIENT_BYTES = 4.0


@dataclass(frozen=True, slots=True)
class Stack:
    """The software of a training job, as far as it moves the time of a step.

    Attributes
    ----------
    recipe : str
        Scaling of 8- and 4-bit products: ``tensor``, ``row`` or ``block``.
    attention : str
        ``best`` kernel of the chip (FlashAttention 3, cuDNN), ``flash2``, or ``unfused``: scores and probabilities
        pass through HBM, and the masked half is computed as well.
    compiled : bool
        Elementwise kernels are fused; an eager framework moves its activations more often.
    fused_experts : bool
        Grouped products take the casts and the activation between them into their own kernels.
    graphs : bool
        Kernels of a microbatch are launched as captured graphs.
    hidden_tensor_parallel : bool
        Tensor-parallel traffic runs under the products (asynchronous or decomposed).
    schedule : str
        Pipeline schedule of :data:`BUBBLE_RATIOS`; interleaving is ``virtual_stages`` of the batch.
    trained_fraction : float or ndarray
        Share of weights that receive gradients: 1, or nearly 0 for adapters (LoRA) [-].
    mtp_layers : int
        Multi-token-prediction modules trained beside the model [-].
    activation_precision : str
        Of what products keep for the backward pass, and of tokens on their way to experts: ``bf16`` or ``fp8``.
    moment_precision : str
        Of the optimizer's two moments: ``fp32`` or ``bf16``.
    optimizer : str
        One of :data:`~computeledger.physics.training.optimizers.OPTIMIZERS`.
    offload : str
        What stays in the host's memory, of :data:`~computeledger.physics.training.host.OFFLOADS`, joined by commas.
    gradient_bytes : float or ndarray
        Of one gradient while it is accumulated [byte].
    sequence_parallel : bool
        Norms and the residual stream are cut over tensor parallelism as well; before 2022 each GPU kept all of them.
    fused_loss : bool
        Cross-entropy keeps no copies of the logits beside those of 16 and 32 bits.
    sharded_gradients : bool
        Gradients are scattered over data-parallel ranks (ZeRO-2) chunk by chunk of a pipeline, without one layer by
        layer, so that one chunk's or layer's are whole at once.
    separate_master : bool
        Sharded weights stand in 16 bits beside the optimizer's master copy; FSDP2 shards the master copy itself.
    keeps_stage_outputs : bool
        A pipeline stage keeps its output of each microbatch that is alive; Megatron frees it once it is sent.
    keeps_gathered_inputs : bool
        Inputs that sequence parallelism gathers stay whole for the backward pass; Megatron gathers them again.
    stage_layers : str
        Where stages have a layer less: at both ``ends``; with tables counted as layers, at the ``back``'s end
        (``front``: the first stages are filled up), or in the first stages (``back``).
    update_bytes : float
        Copies that an update makes of each parameter that a rank updates: gradients cast to fp32, and what optimizers
        without a fused kernel set aside [byte].
    bucket_bytes : float
        Buffers that gradients and weights are flattened into for their exchange [byte].
    residual_streams : float or ndarray
        Residual streams that layers read and hand to the next stage, where they are more than the model's own [-].
    imbalance : float or ndarray
        Busiest rank's routed tokens over the mean [-].
    time_ratio : float
        Real over modelled time of a step under this framework, as measured [-].
    outer_bytes : float
        What an outer optimizer of local steps keeps of a trained parameter [byte].
    tuning : str
        ``usual``, as people run it, or ``recipe``, as the makers of chip and framework tune it for their own tables.
    """

    recipe: str = "tensor"
    attention: str = "best"
    compiled: bool = True
    fused_experts: bool = False
    graphs: bool = False
    hidden_tensor_parallel: bool = False
    schedule: str = "1f1b"
    trained_fraction: Num = 1.0
    mtp_layers: int = 0
    activation_precision: str = "bf16"
    moment_precision: str = "fp32"
    optimizer: str = "adamw"
    offload: str = ""
    gradient_bytes: Num = GRADIENT_BYTES
    sequence_parallel: bool = True
    fused_loss: bool = True
    sharded_gradients: bool = False
    separate_master: bool = False
    keeps_stage_outputs: bool = False
    keeps_gathered_inputs: bool = False
    stage_layers: str = "ends"
    update_bytes: float = 0.0
    bucket_bytes: float = 0.0
    residual_streams: Num = 1.0
    imbalance: Num = 1.0
    time_ratio: float = 1.0
    outer_bytes: float = 0.0
    tuning: str = DEFAULT_TUNING

    def __post_init__(self) -> None:
        check_record(
            self,
            trained_fraction=FRACTION,
            residual_streams=POSITIVE,
            imbalance=POSITIVE,
            time_ratio=POSITIVE,
        )


@dataclass(frozen=True, slots=True)
class Batch:
    """What one training step sees.

    Attributes
    ----------
    sequence_tokens : float or ndarray
        Tokens of one sequence [token].
    global_sequences : float or ndarray
        Sequences per step, all data-parallel ranks together [-].
    microbatch_sequences : float or ndarray
        Sequences that pass a stage at once [-].
    recompute : str
        ``none``, ``selective`` (attention between its products), ``full``, operations of :data:`RECOMPUTED` joined by
        commas, ``reversible``: layers whose inputs are computed back from their outputs, or ``selective-op``.
    virtual_stages : float or ndarray
        Interleaved model chunks per stage [-].
    sharded_weights : bool
        Weights and gradients sharded over data-parallel ranks as well (FSDP / ZeRO-3); the optimizer always is.
    stack : Stack
        The software.
    documents : Documents or None
        What lies in the sequences; None for one document each.
    """

    sequence_tokens: Num
    global_sequences: Num
    microbatch_sequences: Num = 1.0
    recompute: str = "selective"
    virtual_stages: Num = 1.0
    sharded_weights: bool = False
    stack: Stack = field(default_factory=Stack)
    documents: Documents | None = None

    def __post_init__(self) -> None:
        check_record(
            self, sequence_tokens=POSITIVE, global_sequences=POSITIVE, microbatch_sequences=POSITIVE,
            virtual_stages=AT_LEAST_ONE,
        )  # fmt: skip

    @property
    def attended_tokens(self) -> Num:
        """Length of the document that a token attends within, mean over tokens [token]."""
        return self.sequence_tokens if self.documents is None else self.documents.attended_tokens

    @property
    def useful_fraction(self) -> float:
        """Tokens that are not padding [-]."""
        return 1.0 if self.documents is None else self.documents.useful_fraction

    @property
    def offloaded(self) -> frozenset[str]:
        """What stays in the host's memory."""
        return frozenset(self.stack.offload.split(",")) - {""}

    @property
    def shared_master(self) -> bool:
        """Whether gradients or weights are sharded too, as DeepSpeed has it where the optimizer leaves the GPU."""
        return self.sharded_weights or self.stack.sharded_gradients

    @property
    def forward_again(self) -> float:
        """Forward passes of the layers run once more in backward [-]."""
        return FORWARD_AGAIN.get(self.recompute, 0.0)

    def recomputes(self, operation: str) -> bool:
        """Whether an operation runs once more in backward.

        Parameters
        ----------
        operation : str
            One of :data:`RECOMPUTED`.

        Returns
        -------
        bool
            True where it is named, or its mode holds it.

        Examples
        --------
        >>> batch = Batch(4096.0, 128.0, recompute="layernorm,moe_act")
        >>> batch.recomputes("moe_act"), batch.recomputes("core_attn")
        (True, False)
        """
        if self.recompute == "selective":
            return operation == "core_attn"
        if self.recompute == BY_OPERATION:
            return operation != "core_attn"
        return self.forward_again > 0 or operation in self.recompute.split(",")

    def microbatches(self, layout: Layout) -> Num:
        """Microbatches that each pipeline runs per step, ``global / (dp x micro)`` and at least one.

        Parameters
        ----------
        layout : Layout
            Integer degrees or arrays.

        Returns
        -------
        float or ndarray
            Microbatches [-].

        Examples
        --------
        >>> float(Batch(4096.0, 128.0, microbatch_sequences=2.0).microbatches(Layout(dp=8)))
        8.0
        """
        return np.maximum(self.global_sequences / (layout.dp * self.microbatch_sequences), 1.0)


def parse_recompute(text: str) -> str:
    """Read what is recomputed: a mode, or operations joined by commas.

    Parameters
    ----------
    text : str
        As given.

    Returns
    -------
    str
        A mode of :data:`RECOMPUTE`, :data:`REVERSIBLE`, :data:`BY_OPERATION`, or operations in the order of
        :data:`RECOMPUTED`.

    Raises
    ------
    InputError
        For what is neither.

    Examples
    --------
    >>> parse_recompute("moe_act, layernorm")
    'layernorm,moe_act'
    """
    modes = (*RECOMPUTE, REVERSIBLE, BY_OPERATION)
    if text in modes:
        return text
    named = [one.strip() for one in text.split(",")]
    for one in named:
        if one in modes:
            raise InputError(f"recompute {text!r}: {one} stands alone; {', '.join(RECOMPUTED)} may be joined")
        if one not in RECOMPUTED:
            raise InputError(f"recompute {one!r}: {nearest(one, (*modes, *RECOMPUTED))}")
    return ",".join(one for one in RECOMPUTED if one in named)


def with_adapters(batch: Batch, model: Model, lora: Lora | None) -> Batch:
    """State a training step in which only adapters receive gradients.

    Parameters
    ----------
    batch : Batch
        Of a step that trains everything.
    model : Model
        What is trained.
    lora : Lora or None
        Adapters; None trains everything.

    Returns
    -------
    Batch
        Whose trained share of the parameters is that of the adapters.

    Examples
    --------
    >>> from computeledger.facts.architecture import Lora
    >>> from computeledger.facts.load import load_model
    >>> round(with_adapters(Batch(4096, 32), load_model("llama-3.1-8b"), Lora(16)).stack.trained_fraction, 4)
    0.0052
    """
    if lora is None:
        return batch
    trained = adapter_params(model, lora) / n_params_total(model)
    return replace(batch, stack=replace(batch.stack, trained_fraction=trained))
