"""Soups: weighted averages of checkpoints that began as one, and a search of the weights on an evaluation set.

``linear``: ``sum_i w_i theta_i`` with weights that add up to 1. ``slerp``, of two: along the great circle between them,
``(sin((1 - t) a) theta_0 + sin(t a) theta_1) / sin a`` with ``a`` the angle between the tensors; where they are nearly
parallel it is the linear one. Tensors are merged one by one, in double precision.
"""

from __future__ import annotations

import filecmp
import math
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from computeledger.errors import InputError, nearest, shown
from computeledger.files import read_json

METHODS = ("linear", "slerp")
#: Sine of the angle below which two tensors count as parallel.
PARALLEL = 1e-6
#: First and last step of the search, as parts of the whole weight.
FIRST_STEP, LAST_STEP = 0.25, 1 / 32
#: Files of a checkpoint that belong to its training, not to the model.
_TRAINING = ("optimizer", "scheduler", "scaler", "rng_state", "trainer_state", "training_args", "global_step")


def merge_linear(tensors: Sequence[Tensor], weights: Sequence[float]) -> Tensor:
    """Average tensors.

    Examples
    --------
    >>> merge_linear([torch.tensor([0.0, 4.0]), torch.tensor([2.0, 0.0])], [0.25, 0.75]).tolist()
    [1.5, 1.0]
    """
    total = torch.zeros_like(tensors[0], dtype=torch.float64)
    for tensor, weight in zip(tensors, weights, strict=True):
        if weight:
            total += weight * tensor.to(torch.float64)
    return total.to(tensors[0].dtype)


def merge_slerp(first: Tensor, second: Tensor, fraction: float) -> Tensor:
    """Go along the great circle from one tensor towards another.

    Examples
    --------
    >>> middle = merge_slerp(torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0]), 0.5)
    >>> round(float(middle.norm()), 6)
    1.0
    """
    one, other = first.to(torch.float64), second.to(torch.float64)
    lengths = float(one.norm()) * float(other.norm())
    cosine = min(1.0, max(-1.0, float((one * other).sum()) / lengths)) if lengths else 1.0
    angle = math.acos(cosine)
    if math.sin(angle) < PARALLEL:
        return merge_linear([first, second], [1 - fraction, fraction])
    merged = (math.sin((1 - fraction) * angle) * one + math.sin(fraction * angle) * other) / math.sin(angle)
    return merged.to(first.dtype)


def normalised(weights: Sequence[float], n_checkpoints: int, method: str) -> tuple[float, ...]:
    """Check weights and make them add up to 1.

    Examples
    --------
    >>> normalised((3, 1), 2, "linear")
    (0.75, 0.25)
    """
    if method not in METHODS:
        raise InputError(f"method {shown(method)}: {nearest(method, METHODS)}")
    if n_checkpoints < 2 or (method == "slerp" and n_checkpoints != 2):
        raise InputError(f"{n_checkpoints} checkpoints: {'two' if method == 'slerp' else 'at least two'} are needed")
    given = tuple(float(weight) for weight in weights) or (1.0,) * n_checkpoints
    if len(given) != n_checkpoints:
        raise InputError(f"{len(given)} weights for {n_checkpoints} checkpoints: one each is needed")
    total = sum(given)
    if not (math.isfinite(total) and total > 0 and min(given) >= 0):
        raise InputError(f"weights {', '.join(map(str, given))}: finite numbers from 0 are needed, not all 0")
    return tuple(weight / total for weight in given)


def merged(tensors: Sequence[Tensor], weights: Sequence[float], method: str) -> Tensor:
    """Merge one tensor of each checkpoint.

    Examples
    --------
    >>> merged([torch.tensor([2, 3]), torch.tensor([2, 3])], (0.5, 0.5), "linear").tolist()
    [2, 3]
    """
    if not tensors[0].is_floating_point():
        return tensors[0]
    return merge_slerp(tensors[0], tensors[1], weights[1]) if method == "slerp" else merge_linear(tensors, weights)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The weights of a checkpoint, by name."""

    folder: Path
    files: Mapping[str, str]

    def tensor(self, name: str) -> Tensor:
        """Read a tensor."""
        path = self.folder / self.files[name]
        try:
            if not path.is_file():
                raise InputError(f"{shown(str(path))}: no such file")
            with safe_open(path, framework="pt") as file:
                found: Tensor = file.get_tensor(name)
        except (SafetensorError, OSError) as error:
            raise InputError(f"{shown(str(path))} cannot be read: {str(error).splitlines()[0]}") from None
        return found


def open_checkpoint(folder: Path) -> Checkpoint:
    """Find the weights of a Hugging Face checkpoint.

    Examples
    --------
    >>> open_checkpoint(Path("nowhere"))
    Traceback (most recent call last):
    computeledger.errors.InputError: 'nowhere' holds no model.safetensors
    """
    index, whole = folder / "model.safetensors.index.json", folder / "model.safetensors"
    if index.is_file():
        found = read_json(index)
        files = found.get("weight_map") if isinstance(found, dict) else None
        if not isinstance(files, dict) or not all(isinstance(name, str) for name in files.values()):
            raise InputError(f"{index}: holds no weight_map")
        return Checkpoint(folder, files)
    if not whole.is_file():
        raise InputError(f"{shown(str(folder))} holds no model.safetensors")
    try:
        with safe_open(whole, framework="pt") as file:
            return Checkpoint(folder, dict.fromkeys(file.keys(), whole.name))
    except (SafetensorError, OSError) as error:
        raise InputError(f"{shown(str(whole))} cannot be read: {error}") from None


def check_alike(checkpoints: Sequence[Checkpoint]) -> None:
    """Refuse checkpoints that are not of one model and one tokenizer.

    Examples
    --------
    >>> check_alike([Checkpoint(Path("a"), {"w": "f"}), Checkpoint(Path("b"), {"v": "f"})])
    Traceback (most recent call last):
    computeledger.errors.InputError: a and b are not of one model: 'v' is in one of them only
    """
    first = checkpoints[0]
    for other in checkpoints[1:]:
        names = f"{first.folder.name} and {other.folder.name}"
        if alone := sorted(set(first.files) ^ set(other.files)):
            raise InputError(f"{names} are not of one model: {shown(alone[0])} is in one of them only")
        for name in first.files:
            one, two = ((c.tensor(name).shape, c.tensor(name).dtype) for c in (first, other))
            if one != two:
                shapes = " and ".join(
                    f"{tuple(shape)} {str(kind).removeprefix('torch.')}" for shape, kind in (one, two)
                )
                raise InputError(f"{names} are not of one model: {name} is {shapes}")
        tokenizers = [c.folder / "tokenizer.json" for c in (first, other)]
        if all(path.is_file() for path in tokenizers) and not filecmp.cmp(tokenizers[0], tokenizers[1], shallow=False):
            raise InputError(f"{names} do not share a tokenizer: their tokenizer.json differ")


def write_soup(checkpoints: Sequence[Checkpoint], weights: Sequence[float], method: str, out: Path) -> None:
    """Write a merged checkpoint; the folder appears when it is whole.

    Examples
    --------
    >>> import tempfile
    >>> place = Path(tempfile.mkdtemp())
    >>> for name, value in (("a", 1.0), ("b", 3.0)):
    ...     (place / name).mkdir()
    ...     save_file({"w": torch.tensor([value])}, place / name / "model.safetensors")
    >>> parts = [open_checkpoint(place / name) for name in ("a", "b")]
    >>> write_soup(parts, (0.5, 0.5), "linear", place / "c")
    >>> open_checkpoint(place / "c").tensor("w").tolist()
    [2.0]
    """
    if out.exists():
        raise InputError(f"{shown(str(out))} is there already: name a new folder")
    first = checkpoints[0]
    unfinished = out.with_name(f".{out.name}.{os.getpid()}.part")
    unfinished.mkdir(parents=True)
    try:
        for file in sorted(set(first.files.values())):
            names = [name for name, held in first.files.items() if held == file]
            tensors = {name: merged([c.tensor(name) for c in checkpoints], weights, method) for name in names}
            save_file(tensors, unfinished / file, metadata={"format": "pt"})
        for path in first.folder.iterdir():
            if (
                path.is_file()
                and path.suffix not in (".safetensors", ".bin", ".pt")
                and not path.name.startswith(_TRAINING)
            ):
                shutil.copy2(path, unfinished / path.name)
        unfinished.rename(out)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


@dataclass(frozen=True, slots=True)
class Trial:
    """A soup that was tried."""

    weights: tuple[float, ...]
    score: float


def search_weights(score: Callable[[tuple[float, ...]], float], n_checkpoints: int, limit: int = 40) -> list[Trial]:
    """Look for the weights that score lowest.

    Every checkpoint alone and the equal soup first; then a share of the weight is moved from one to another, the best
    move is taken, and the share halves where none helps. What was found is the best of many on one set: judge it on
    another.

    Examples
    --------
    >>> trials = search_weights(lambda weights: (weights[0] - 0.625) ** 2, 2)
    >>> min(trials, key=lambda trial: trial.score).weights
    (0.625, 0.375)
    """
    trials: dict[tuple[float, ...], Trial] = {}

    def tried(weights: tuple[float, ...]) -> Trial | None:
        if weights not in trials and len(trials) < limit:
            trials[weights] = Trial(weights, score(weights))
        return trials.get(weights)

    alone = [tuple(float(place == one) for place in range(n_checkpoints)) for one in range(n_checkpoints)]
    begun = [tried(weights) for weights in [*alone, (1 / n_checkpoints,) * n_checkpoints]]
    best = min((trial for trial in begun if trial), key=lambda trial: trial.score)
    step = FIRST_STEP
    while step >= LAST_STEP and len(trials) < limit:
        moves = [trial for weights in _moves(best.weights, step) if (trial := tried(weights))]
        better = min(moves, key=lambda trial: trial.score, default=best)
        if better.score < best.score:
            best = better
        else:
            step /= 2
    return list(trials.values())


def _moves(weights: tuple[float, ...], step: float) -> Iterator[tuple[float, ...]]:
    """Weights with a share moved from one checkpoint to another."""
    for giver, weight in enumerate(weights):
        share = min(step, weight)
        for taker in range(len(weights)):
            if taker != giver and share > 0:
                moved = list(weights)
                moved[giver] -= share
                moved[taker] += share
                yield tuple(round(value, 12) for value in moved)


def merged_state(states: Sequence[Mapping[str, Tensor]], weights: Sequence[float], method: str) -> dict[str, Any]:
    """Merge checkpoints held in memory, as the search does.

    Examples
    --------
    >>> merged_state([{"w": torch.tensor([1.0])}, {"w": torch.tensor([3.0])}], (0.5, 0.5), "linear")["w"].tolist()
    [2.0]
    """
    return {name: merged([state[name] for state in states], weights, method) for name in states[0]}
