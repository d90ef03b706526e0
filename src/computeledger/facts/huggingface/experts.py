"""Mixtures of experts: how many, how wide, which layers route to them, and what stands beside them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from computeledger.facts.architecture import FeedForward
from computeledger.facts.huggingface.fields import Fields
from computeledger.facts.huggingface.parts import dense_mlp

EXPERT_COUNTS = ("num_experts", "num_local_experts", "n_routed_experts", "num_routed_experts", "moe_num_experts")
EXPERTS_PER_TOKEN = ("num_experts_per_tok", "num_experts_per_token", "experts_per_token", "moe_top_k", "top_k_experts")


def routed_experts(f: Fields, width: int, n_matrices: int = 3) -> FeedForward:
    """Routed experts of a width, no shared ones."""
    n, active = f.integer(*EXPERT_COUNTS), f.integer(*EXPERTS_PER_TOKEN)
    if active > n:
        name = next(name for name in EXPERTS_PER_TOKEN if f.has(name))
        raise f.error(name, f"{active} experts per token, but there are {n}")
    groups, visited = f.optional_integer("n_group"), f.optional_integer("topk_group")
    limited = bool(groups and visited and visited < groups)
    return FeedForward(
        n_matrices=n_matrices,
        n_experts=n,
        n_experts_active=active,
        n_groups=(groups or 0) if limited else 0,
        n_groups_active=(visited or 0) if limited else 0,
        expert_width=width,
    )


def with_shared(f: Fields, part: FeedForward, names: Sequence[str], width: int) -> FeedForward:
    """Shared experts beside the routed ones."""
    n = f.optional_integer(*names, minimum=0) or 0
    return replace(part, n_shared_experts=n, shared_width=width if n else 0)


def expert_layers(f: Fields, n_layers: int) -> list[bool]:
    """Which layers route to experts: after the first dense ones, at a frequency, or by a list."""
    if isinstance(f.value("moe_layer_freq"), Sequence):
        first = f.integer("first_k_dense_replace", default=0, minimum=0)
        listed = f.integers("moe_layer_freq", n_layers)
        return [bool(listed[i]) and i >= first for i in range(n_layers)]
    every = f.integer("moe_layer_freq", default=1)
    by_kind: list[bool] | None = None
    if f.has("mlp_layer_types"):
        kinds = f.choices("mlp_layer_types", {"dense": 0, "sparse": 1}, n_layers)
        by_kind = [kind == "sparse" for kind in kinds]
        if not f.has("first_k_dense_replace"):
            return by_kind
    first = f.integer("first_k_dense_replace", minimum=0)
    routed = [i >= first and i % every == 0 for i in range(n_layers)]
    if by_kind is not None and by_kind != routed:
        raise f.error("mlp_layer_types", "contradicts first_k_dense_replace and moe_layer_freq")
    return routed


def pick(routed: Sequence[bool], moe: FeedForward, dense: FeedForward) -> list[FeedForward]:
    """One feed-forward part per layer."""
    return [moe if is_routed else dense for is_routed in routed]


def experts_after_dense(f: Fields, n_layers: int) -> list[FeedForward]:
    """Dense layers first, then experts with shared ones of the same width and a bias in the router."""
    width = f.integer("moe_intermediate_size")
    moe = with_shared(f, routed_experts(f, width), ("n_shared_experts", "num_shared_experts"), width)
    moe = replace(moe, extra_params=moe.n_experts)
    routed = expert_layers(f, n_layers)
    if all(routed):
        f.ignore("intermediate_size")
        return [moe] * n_layers
    return pick(routed, moe, dense_mlp(f))


def experts_in_steps(f: Fields, n_layers: int) -> list[FeedForward]:
    """Experts in every ``decoder_sparse_step``-th layer not named as dense; a shared one behind a gate of its own."""
    moe = routed_experts(f, f.integer("moe_intermediate_size"))
    shared = f.optional_integer("shared_expert_intermediate_size", minimum=0)
    if shared:
        moe = replace(moe, n_shared_experts=1, shared_width=shared, extra_params=f.integer("hidden_size"))
    step = f.integer("decoder_sparse_step", default=1)
    dense_layers = set(f.integers("mlp_only_layers")) if f.has("mlp_only_layers") else set()
    routed = [(i + 1) % step == 0 and i not in dense_layers for i in range(n_layers)]
    if all(routed):
        f.ignore("intermediate_size")
        return [moe] * n_layers
    return pick(routed, moe, dense_mlp(f))
