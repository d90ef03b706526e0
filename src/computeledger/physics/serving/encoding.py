"""Reading images: what the encoder beside a language model computes, moves and holds.

An image of ``P`` patches and ``T`` tokens takes ``2 P (a + L b) + 2 T c + 4 w P V`` FLOP: ``a`` parameters of a patch,
``b`` of each of ``L`` layers, ``c`` of the way into the text model, and attention of width ``w`` of each patch to the
``V`` patches that it sees, over all layers. Weights are in 16 bits. An engine spreads the matrices over the ranks of
tensor parallelism, with two all-reduces a layer, or the images, each of which one rank reads whole.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from computeledger.arrays import Num
from computeledger.facts.architecture import DATA, Images, Model
from computeledger.facts.schema import PRECISION_BYTES
from computeledger.physics import collectives
from computeledger.physics.calibration.efficiency import IDEAL
from computeledger.physics.parallelism import Layout
from computeledger.physics.roofline import ACTIVATION_BYTES, Machine, Operation, total_s
from computeledger.physics.roofline import OperationKind as Kind

#: Encoders are kept in 16 bits, in checkpoints whose language part is narrower too.
ENCODER_BYTES = PRECISION_BYTES["bf16"]
#: Values between products of a layer, of a patch's width: the residual stream read and written, queries, keys, values
#: and their result.
_RESIDUAL_PASSES, _WIDE_PASSES = 8.0, 2.0


@dataclass(frozen=True, slots=True)
class ImageWork:
    """What one image takes of an encoder.

    Attributes
    ----------
    product_flop, attention_flop : float
        Matrix products, and attention between patches [FLOP].
    activation_bytes : float
        Traffic between products [byte].
    """

    product_flop: float
    attention_flop: float
    activation_bytes: float

    @property
    def flop(self) -> float:
        """All of it [FLOP]."""
        return self.product_flop + self.attention_flop


def image_work(images: Images) -> ImageWork:
    """Work of one image.

    Parameters
    ----------
    images : Images
        Patches and tokens of one, and what reads it.

    Returns
    -------
    ImageWork
        Of one image.

    References
    ----------
    The sums of the module's docstring; a patch sees all others of its image, or those of its window.

    Examples
    --------
    >>> from computeledger.facts.images import count_image
    >>> from computeledger.facts.load import load_model
    >>> model = load_model("qwen2.5-vl-7b-instruct")
    >>> one = count_image(model, (1024, 768))
    >>> round(image_work(Images(1, one.patches, one.tokens, model.vision)).flop / 1e12, 1)
    5.5
    """
    one, patches = images.encoder, images.patches
    merged = patches / one.merged_side**2
    products = patches * (one.patch_params + one.n_layers * one.layer_params) + merged * one.projector_params
    window = min(one.window_patches or patches, patches)
    n_full = one.n_full_layers if one.window_patches else one.n_layers
    seen = n_full * patches + (one.n_layers - n_full) * window
    per_patch = _RESIDUAL_PASSES * one.hidden_size + _WIDE_PASSES * (4 * one.attention_width + 2 * one.mlp_width)
    return ImageWork(
        product_flop=2.0 * products,
        attention_flop=4.0 * one.attention_width * patches * seen,
        activation_bytes=ACTIVATION_BYTES * one.n_layers * patches * per_patch,
    )


def encoder_bytes_per_gpu(model: Model, layout: Layout) -> Num:
    """Stored weights of the encoder on each GPU of the first stage.

    Parameters
    ----------
    model : Model
        With its images, or without.
    layout : Layout
        Integer degrees or arrays.

    Returns
    -------
    float or ndarray
        0 where prompts are text [byte].

    Examples
    --------
    >>> from dataclasses import replace
    >>> from computeledger.facts.load import load_model
    >>> model = load_model("qwen2.5-vl-7b-instruct")
    >>> seen = replace(model, images=Images(1, 3996, 1001, model.vision))
    >>> [round(encoder_bytes_per_gpu(one, Layout(tp=2)) / 1e9, 2) for one in (model, seen)]
    [0.0, 0.68]
    """
    images = model.images
    if images is None:
        return 0.0
    return ENCODER_BYTES * images.encoder.n_params / (1 if images.spread == DATA else layout.tp)


def encoding_bytes(images: Images, layout: Layout, chunk_tokens: float, copies: tuple[float, float]) -> Num:
    """Activations of the encoder while it reads the images of one chunk of prompts.

    Parameters
    ----------
    images : Images
        Of a request.
    layout : Layout
        Integer degrees or arrays.
    chunk_tokens : float
        Tokens of prompts that pass together; at least one image is read whole [token].
    copies : tuple of float
        Of the residual stream and of the width of an MLP with a gate that a layer holds at once; an MLP of two matrices
        holds two thirds of the latter [-].

    Returns
    -------
    float or ndarray
        On the busiest rank [byte].

    Examples
    --------
    >>> from computeledger.facts.load import load_model
    >>> images = Images(1, 3996, 1001, load_model("qwen2.5-vl-7b-instruct").vision)
    >>> round(encoding_bytes(images, Layout(), 8192.0, (4.25, 3.0)) / 1e9, 2)
    1.03
    """
    one, together = images.encoder, max(chunk_tokens / images.tokens, 1.0)
    is_data = images.spread == DATA
    patches: Num = images.patches * (np.ceil(together / layout.tp) if is_data else together)
    width: Num = one.mlp_width / (1 if is_data else layout.tp)
    matrices = (one.layer_params - 4 * one.hidden_size * one.attention_width) / (one.hidden_size * one.mlp_width)
    return ACTIVATION_BYTES * patches * (copies[0] * one.hidden_size + copies[1] * matrices / 3 * width)


def encoding(
    images: Images | None, per_rank: Num, hidden_size: int, layout: Layout, machine: Machine
) -> list[Operation]:
    """Operations that reading images adds to a pass over prompts, before the language model's own.

    The kernels are launched one by one, as those of a prefill are, and as efficient (assumption). A fraction of an
    image is the chance that a pass has one.

    Parameters
    ----------
    images : Images or None
        Of a request.
    per_rank : float or ndarray
        Images that a pass reads on each attention-DP rank [-].
    hidden_size : int
        Of the language model [-].
    layout : Layout
        Integer degrees or arrays.
    machine : Machine
        One GPU, its links, and what they reach.

    Returns
    -------
    list of Operation
        None where prompts are text.

    Examples
    --------
    >>> from computeledger.facts.load import load_model, load_system
    >>> model, machine = load_model("qwen2.5-vl-7b-instruct"), Machine(load_system("h100-nvl8"))
    >>> images = Images(1, 3996, 1001, model.vision)
    >>> [one.name for one in encoding(images, 1.0, 3584, Layout(), machine)]
    ['image encoder', 'attention of images', 'activations of images']
    >>> encoding(None, 1.0, 3584, Layout(), machine)
    []
    """
    if images is None or not np.any(per_rank):
        return []
    one, work, eff = images.encoder, image_work(images), machine.efficiency
    chance, together = np.minimum(per_rank, 1.0), np.maximum(per_rank, 1.0)
    if images.spread == DATA:
        read: Num = np.ceil(together / layout.tp)
        share: Num = 1.0
        moved = together * images.tokens * hidden_size * ACTIVATION_BYTES
        network_s = collectives.ring_s(moved, layout.tp, machine, passes=1)
        network_bytes = np.where(np.asarray(layout.tp) > 1, moved, 0.0)
    else:
        read, share = together, 1.0 / layout.tp
        residual = together * images.patches * one.hidden_size * ACTIVATION_BYTES
        network_s = 2 * one.n_layers * collectives.ring_s(residual, layout.tp, machine)
        network_bytes = np.where(np.asarray(layout.tp) > 1, 2 * one.n_layers * residual, 0.0)
    weights = ENCODER_BYTES * one.n_params * share
    ratio = 1.0 if eff is IDEAL else eff.prefill_ratio
    products = Operation(
        Kind.IMAGE_ENCODER,
        flop=read * share * work.product_flop,
        bytes=weights,
        flop_per_s=machine.gemm_flop_per_s("bf16") / ratio,
        bytes_per_s=machine.weight_bytes_per_s / ratio,
        network_bytes=network_bytes,
        network_s=ratio * network_s,
    )
    attention = Operation(
        Kind.IMAGE_ATTENTION,
        flop=read * share * work.attention_flop,
        flop_per_s=machine.system.accelerator.peak("bf16") * machine.reached(eff.attention_fraction) / ratio,
    )
    passed = Operation(
        Kind.IMAGE_ACTIVATIONS,
        bytes=read * share * work.activation_bytes * eff.activation_passes,
        bytes_per_s=machine.weight_bytes_per_s / ratio,
    )
    work_s, launched_s = total_s([products, attention, passed]), eff.prefill_layer_s * eff.launch_ratio * one.n_layers
    waited_s = np.cbrt(work_s**3 + launched_s**3) - work_s
    return [_times(products, chance, waited_s), *(_times(part, chance, 0.0) for part in (attention, passed))]


def _times(one: Operation, chance: Num, waited_s: Num) -> Operation:
    """An operation that some passes have, with what its launches add."""
    return Operation(
        one.kind,
        flop=chance * one.flop,
        bytes=chance * one.bytes,
        flop_per_s=one.flop_per_s,
        bytes_per_s=one.bytes_per_s,
        network_bytes=chance * one.network_bytes,
        network_s=chance * one.network_s,
        overhead_s=chance * waited_s,
    )
