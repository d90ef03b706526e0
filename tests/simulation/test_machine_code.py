"""Machine code of a kernel: it reads named tuples where they lie, and its one long wait is announced."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from computeledger.progress import Progress, listening
from computeledger.simulation import compiled
from computeledger.simulation.rl.loop import rl_loop
from computeledger.simulation.serving.loop import serve_loop


class Inner(NamedTuple):
    """A scale, and numbers that are changed in place."""

    scale: float
    counts: np.ndarray


class Outer(NamedTuple):
    """A tuple with one inside."""

    inner: Inner
    is_doubled: bool
    weights: np.ndarray


def scaled(inner: Inner, place: int) -> float:
    inner.counts[place] += 1
    return inner.scale * float(inner.counts[place])


def total(outer: Outer) -> float:
    found = 0.0
    for place in range(len(outer.weights)):
        found += scaled(outer.inner, place) * outer.weights[place]
    return 2 * found if outer.is_doubled else found


@pytest.mark.skipif(not compiled.can_compile(), reason="numba is not installed")
def test_machine_code_reads_and_changes_nested_tuples_and_is_announced_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("numba.config.CACHE_DIR", str(tmp_path))
    monkeypatch.setitem(compiled._KERNELS, "scaled", scaled)
    said: list[str] = []
    for doubled in (False, True):
        here, there = (Outer(Inner(0.5, np.arange(3)), doubled, np.ones(3)) for _ in range(2))
        with listening(Progress(said.append)):
            code = compiled.compiled.__wrapped__(total)  # made anew, as in another process
            assert code(there) == total(here)
        assert sum(code.stats.cache_hits.values()) == int(doubled)  # what the first has stored
        assert there.inner.counts.tolist() == here.inner.counts.tolist() == [1, 2, 3]
    assert len(said) == 1


def test_what_is_stored_of_a_kernel_does_not_depend_on_what_else_is_loaded() -> None:
    served, trained = ({one.__module__ for one in compiled._called(loop)} for loop in (serve_loop, rl_loop))
    assert "computeledger.simulation.serving.loop" in served
    assert not [name for name in served if ".rl." in name]
    assert not [name for name in trained if ".serving." in name]
