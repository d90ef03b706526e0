"""Low-rank adapters: a frozen model takes 4 N FLOP per token instead of 6 N, and trains little.

Each adapted matrix of ``a x b`` gets two of rank ``r``: ``r (a + b)`` parameters. The frozen weights need no gradients
and no optimizer; gradients still flow through them to the activations.
"""

from __future__ import annotations

from dataclasses import dataclass

from computeledger.arrays import Num
from computeledger.bounds import AT_LEAST_ONE, check_record
from computeledger.facts.architecture import LayerGroup, Model

TARGETS = ("attention", "all")


@dataclass(frozen=True, slots=True)
class Lora:
    """Adapters beside a frozen model.

    Attributes
    ----------
    rank : int
        Of every adapter, ``r`` [-].
    targets : str
        ``attention`` adapts the projections of the mixers, ``all`` the dense MLPs as well; routed experts stay frozen.
    """

    rank: int
    targets: str = "all"

    def __post_init__(self) -> None:
        check_record(self, rank=AT_LEAST_ONE)


def adapter_params(model: Model, lora: Lora) -> float:
    """Count the trainable parameters, ``sum of r (a + b)`` over the adapted matrices.

    Parameters
    ----------
    model : Model
        What is adapted.
    lora : Lora
        Rank and targets.

    Returns
    -------
    float
        Parameters [-].

    Examples
    --------
    >>> from computeledger.facts.load import load_model
    >>> adapter_params(load_model("llama-3.1-8b"), Lora(16)) / 1e6
    41.943...
    """
    return float(sum(group.count * _per_layer(group, model.hidden_size, lora) for group in model.layers))


def _per_layer(group: LayerGroup, width: int, lora: Lora) -> float:
    mixer, part = group.attention, group.feed_forward
    sides = 0
    if mixer.is_present:
        query, value = mixer.n_query_heads * mixer.qk_head_dim, mixer.n_query_heads * mixer.v_head_dim
        keys = mixer.n_kv_heads * (mixer.qk_head_dim + mixer.v_head_dim)
        latent = mixer.q_lora_rank + mixer.kv_lora_rank
        sides += 4 * width + query + keys + value + 2 * latent
    if lora.targets == "all":
        shared = part.n_shared_experts * part.shared_width
        sides += part.n_matrices * ((width + part.width) * (part.width > 0) + (width + shared) * (shared > 0))
    return float(lora.rank * sides)


def trainable_fraction(model: Model, lora: Lora, n_params_total: Num) -> Num:
    """Share of the parameters that are trained.

    Parameters
    ----------
    model : Model
        What is adapted.
    lora : Lora
        Rank and targets.
    n_params_total : float or ndarray
        Parameters of the model [-].

    Returns
    -------
    float or ndarray
        Share [-].

    Examples
    --------
    >>> from computeledger.facts.load import load_model
    >>> round(trainable_fraction(load_model("llama-3.1-8b"), Lora(16), 8.03e9), 4)
    0.0052
    """
    trained = adapter_params(model, lora)
    return trained / (n_params_total + trained)
