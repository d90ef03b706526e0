"""Running means of the weights that are trained: ``mean <- decay mean + (1 - decay) weights`` after every update."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor


class RunningMean:
    """A running mean of a model's trained weights, held once; the model takes them on for as long as they are needed.

    Examples
    --------
    >>> model = torch.nn.Linear(1, 1, bias=False)
    >>> mean, begun = RunningMean(model, decay=0.5), model.weight.item()
    >>> with torch.no_grad():
    ...     model.weight += 2
    >>> mean.follow()
    >>> with mean.in_place():
    ...     round(model.weight.item() - begun, 5)
    1.0
    >>> round(model.weight.item() - begun, 5)
    2.0
    """

    def __init__(self, model: Any, decay: float) -> None:
        self._now = {name: one for name, one in model.named_parameters() if one.requires_grad}
        self._mean = {name: one.detach().clone() for name, one in self._now.items()}
        self._rate = 1 - decay

    @torch.no_grad()
    def follow(self) -> None:
        """Move by one update."""
        for name, now in self._now.items():
            self._mean[name].lerp_(now, self._rate)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Let the model have the mean's weights meanwhile."""
        self._exchange()
        try:
            yield
        finally:
            self._exchange()

    @torch.no_grad()
    def _exchange(self) -> None:
        for name, now in self._now.items():
            kept = now.clone()
            now.copy_(self._mean[name])
            self._mean[name].copy_(kept)

    def state(self) -> dict[str, Tensor]:
        """The means as whole tensors, gathered where they are sharded: every process has to ask."""
        return {name: _whole(one).cpu() for name, one in self._mean.items()}

    @torch.no_grad()
    def load(self, state: Mapping[str, Tensor]) -> None:
        """Go on from means that were kept, however many processes kept them."""
        for name, mean in self._mean.items():
            mean.copy_(_like(state[name], mean))


def _whole(one: Any) -> Tensor:
    found: Tensor = one.full_tensor() if hasattr(one, "full_tensor") else one
    return found.detach()


def _like(whole: Tensor, one: Any) -> Tensor:
    """A whole tensor, sharded as another is."""
    if not hasattr(one, "full_tensor"):
        return whole
    return torch.distributed.tensor.distribute_tensor(whole.to(one.device), one.device_mesh, one.placements)
