"""Soups: ends, symmetry and length of a merge; whole files or none; the search finds what there is to find."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import save_file

from computeledger.errors import InputError
from rntp.soup import (
    check_alike,
    merge_linear,
    merge_slerp,
    normalised,
    open_checkpoint,
    search_weights,
    write_soup,
)

FRACTIONS = st.floats(0, 1)
SEEDS = st.integers(0, 2**31)


def two(seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    chance = torch.Generator().manual_seed(seed)
    return torch.randn(5, 7, generator=chance, dtype=torch.float64), torch.randn(5, 7, generator=chance).double()


@given(SEEDS)
def test_ends(seed: int) -> None:
    a, b = two(seed)
    for merge in (merge_slerp, lambda x, y, t: merge_linear([x, y], [1 - t, t])):
        assert torch.allclose(merge(a, b, 0.0), a, atol=1e-12) and torch.allclose(merge(a, b, 1.0), b, atol=1e-12)
        assert torch.allclose(merge(a, a, 0.3), a, atol=1e-12)


@given(SEEDS, FRACTIONS)
def test_symmetry(seed: int, fraction: float) -> None:
    a, b = two(seed)
    assert torch.allclose(merge_slerp(a, b, fraction), merge_slerp(b, a, 1 - fraction), atol=1e-9)
    one, other = (merge_linear([x, y], [w, 1 - w]) for x, y, w in ((a, b, fraction), (b, a, 1 - fraction)))
    assert torch.allclose(one, other, atol=1e-12)


@given(SEEDS, FRACTIONS)
def test_length(seed: int, fraction: float) -> None:
    a, b = two(seed)
    b = b * a.norm() / b.norm()
    whole = merge_slerp(a, b, fraction)
    assert float(whole.norm()) == pytest.approx(float(a.norm()), rel=1e-9)
    angles = [torch.acos(((x * y).sum() / a.norm() ** 2).clamp(-1, 1)) for x, y in ((a, whole), (a, b))]
    assert float(angles[0]) == pytest.approx(fraction * float(angles[1]), abs=1e-6)
    assert float(merge_linear([a, b], [1 - fraction, fraction]).norm()) <= float(a.norm()) * (1 + 1e-12)


def checkpoint(folder: Path, seed: int, *, rows: int = 3, sharded: bool = False) -> Path:
    folder.mkdir(parents=True)
    chance = torch.Generator().manual_seed(seed)
    tensors = {
        "a.weight": torch.randn(rows, 4, generator=chance).bfloat16(),
        "b.weight": torch.randn(4, generator=chance),
    }
    if sharded:
        parts = {name: f"model-{place}-of-2.safetensors" for place, name in enumerate(tensors, 1)}
        for name, file in parts.items():
            save_file({name: tensors[name]}, folder / file)
        (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": parts}))
    else:
        save_file({**tensors, "steps": torch.tensor([7])}, folder / "model.safetensors")
    (folder / "config.json").write_text("{}")
    (folder / "tokenizer.json").write_text(f"{rows}")
    (folder / "optimizer.bin").write_text("large")
    return folder


@pytest.mark.parametrize("sharded", [False, True])
def test_a_soup_is_a_checkpoint(tmp_path: Path, sharded: bool) -> None:
    parts = [open_checkpoint(checkpoint(tmp_path / f"c{seed}", seed, sharded=sharded)) for seed in range(3)]
    check_alike(parts)
    write_soup(parts, normalised((2, 1, 1), 3, "linear"), "linear", tmp_path / "soup")
    soup = open_checkpoint(tmp_path / "soup")
    assert soup.files == parts[0].files
    for name in soup.files:
        kept = [part.tensor(name) for part in parts]
        by_hand = (0.5 * kept[0].double() + 0.25 * kept[1].double() + 0.25 * kept[2].double()).to(kept[0].dtype)
        assert torch.equal(soup.tensor(name), by_hand)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["c0", "c1", "c2", "soup"]
    assert not (tmp_path / "soup" / "optimizer.bin").exists() and (tmp_path / "soup" / "config.json").exists()
    with pytest.raises(InputError, match="there already"):
        write_soup(parts, (1, 0, 0), "linear", tmp_path / "soup")


def test_a_soup_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = [open_checkpoint(checkpoint(tmp_path / f"c{seed}", seed)) for seed in range(2)]

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("rntp.soup.save_file", full)
    with pytest.raises(OSError, match="No space"):
        write_soup(parts, (0.5, 0.5), "slerp", tmp_path / "soup")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["c0", "c1"]


def test_what_is_not_of_one_model_is_refused(tmp_path: Path) -> None:
    small, large = (open_checkpoint(checkpoint(tmp_path / str(rows), 0, rows=rows)) for rows in (3, 5))
    with pytest.raises(InputError, match=r"3 and 5 are not of one model: a.weight is \(3, 4\) bfloat16 and \(5, 4\)"):
        check_alike([small, large])
    other = open_checkpoint(checkpoint(tmp_path / "other", 1))
    (tmp_path / "other" / "tokenizer.json").write_text("another")
    with pytest.raises(InputError, match="do not share a tokenizer"):
        check_alike([small, other])


@pytest.mark.parametrize(
    ("weights", "n", "method", "message"),
    [((1,), 2, "linear", "1 weights for 2"), ((), 3, "slerp", "two are needed"), ((-1, 2), 2, "linear", "from 0"),
     ((), 2, "slrp", "did you mean 'slerp'"), ((0, 0), 2, "linear", "not all 0"), ((), 1, "linear", "at least two")],
)  # fmt: skip
def test_wrong_weights_are_refused(weights: tuple[float, ...], n: int, method: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        normalised(weights, n, method)


def test_the_search_reaches_a_bowl_s_bottom_and_keeps_its_limit() -> None:
    target = (0.5, 0.125, 0.375)

    def bowl(weights: tuple[float, ...]) -> float:
        assert sum(weights) == pytest.approx(1) and min(weights) >= 0
        return sum((one - other) ** 2 for one, other in zip(weights, target, strict=True))

    trials = search_weights(bowl, 3, limit=100)
    best = min(trials, key=lambda trial: trial.score)
    assert max(abs(one - other) for one, other in zip(best.weights, target, strict=True)) <= 1 / 16
    assert len({trial.weights for trial in trials}) == len(trials)
    assert [trial.weights for trial in trials[:3]] == [(1, 0, 0), (0, 1, 0), (0, 0, 1)]
    assert len(search_weights(bowl, 3, limit=6)) == 6
