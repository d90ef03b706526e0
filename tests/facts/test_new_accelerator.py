"""A new accelerator is data files only: every list, guess and comparison finds it there."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

import pytest

import computeledger as cl
from computeledger.errors import InputError
from computeledger.facts import catalog, load
from computeledger.frontier import described
from computeledger.physics.calibration.training import REFERENCE_CHIPS, chip_family

DATA = resources.files("computeledger.facts").joinpath("data")
CACHES = (catalog._stems, load._shipped_accelerator, load._shipped_system, load._systems_called, described._superchips,
          load.bundled_system, load._accelerators_by_name, load.load_node)  # fmt: skip


@pytest.fixture
def with_toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The shipped data, and a chip and a system that are copies of the H100's under other names."""
    with resources.as_file(DATA) as shipped:
        shutil.copytree(shipped, tmp_path / "data")
    for folder, old, new in (("accelerators", "h100-sxm5-80gb", "toy9000"), ("systems", "h100-nvl8", "toy-4")):
        text = (tmp_path / "data" / folder / f"{old}.toml").read_text("utf-8").replace(old, new)
        text = text.replace('accelerator = "h100-sxm5-80gb"', 'accelerator = "toy9000"')
        text = text.replace('short_name = "H100"', 'short_name = "Toy9000"').replace(
            "dies = 1", "dies = 1\npackages_per_superchip = 4"
        )
        (tmp_path / "data" / folder / f"{new}.toml").write_text(text, "utf-8")
    for module in (catalog, load):
        monkeypatch.setattr(module, "shipped_file", (tmp_path / "data").joinpath)
    for cache in CACHES:
        cache.cache_clear()
    yield
    monkeypatch.undo()
    for cache in CACHES:
        cache.cache_clear()


@pytest.mark.usefixtures("with_toy")
def test_a_new_chip_is_served_trained_and_found() -> None:
    """What follows from the chip's family and figures is the H100's; no name in the code stands in the way."""
    assert "toy9000" in catalog.accelerator_ids() and load.system_named_in("8x Toy9000") == "toy-4"
    asked = {"model": "llama-3.1-8b", "price": "$2/h"}
    ideal: dict[str, str | float] = {"layout": "tp1", "batch": 8, "backend": "ideal"}
    runs: dict[str, str | float] = {"layout": "tp2-dp4", "gpus": 8, "tokens": "1T"}
    both = [(cl.serve(**asked, **ideal, system=one), cl.pretrain(**asked, **runs, system=one))
            for one in ("h100-nvl8", "toy-4")]  # fmt: skip
    (served, trained), (toy_served, toy_trained) = both
    assert toy_trained.step_s.p50 == trained.step_s.p50
    assert toy_served.tpot_s.p50 == served.tpot_s.p50
    with pytest.raises(InputError, match=r"Toy9000 means a chip or a superchip of 4"):
        described.parse_description("100K toy9000")


@pytest.mark.usefixtures("with_toy")
def test_a_new_chip_is_counted_in_the_node_of_its_facts(tmp_path: Path) -> None:
    """In a shipped node, and in one of its own: data files again."""
    assert load.load_system("4xtoy9000").measured_as == ""
    assert load.load_system("4 x Toy9000").scale_up_bytes_per_s_per_gpu.value == 450e9
    chip, nodes = tmp_path / "data" / "accelerators" / "toy9000.toml", tmp_path / "data" / "nodes"
    text = (nodes / "pcie-5-server.toml").read_text("utf-8")
    (nodes / "toy-box.toml").write_text(
        text.replace("pcie-5-server", "toy-box").replace("value = 63", "value = 12"), "utf-8"
    )
    chip.write_text(chip.read_text("utf-8").replace('node = "h100-nvl8"', 'node = "toy-box"'), "utf-8")
    for cache in CACHES:
        cache.cache_clear()
    asked: dict[str, str | float] = {
        "model": "llama-3.1-8b",
        "layout": "tp2",
        "batch": 8,
        "price": "$2/h",
        "samples": 16,
    }
    boxed, fast = (cl.serve(**asked, system=one) for one in ("2xtoy9000", "h100-nvl8"))
    assert boxed.tpot_s.p50 > fast.tpot_s.p50
    assert "toy-4" in load.offered_systems() and "8xtoy9000" not in load.offered_systems()


def test_every_shipped_chip_states_its_family_and_name() -> None:
    chips = [load.load_accelerator(name) for name in catalog.accelerator_ids()]
    assert all(chip.family and chip.short_name and chip.node for chip in chips)
    assert len({chip.short_name for chip in chips}) == len(chips)
    assert {family: chip_family(load.load_accelerator(chip)) for family, chip in REFERENCE_CHIPS.items()} == {
        family: family for family in REFERENCE_CHIPS
    }


def test_systems_are_told_apart_by_what_publications_call_their_chip() -> None:
    names = [load.load_system(name).accelerator.short_name for name in catalog.system_ids()]
    assert len(set(names)) == len(names)
    for text, system in {
        "NVIDIA H200": "h200-nvl8", "H20": "h20-nvl8", "b200_sxm": "b200-nvl8", "GB300": "gb300-nvl72",
        "TPU v5e (2x v5e-256)": "tpu-v5e-pod", "NVIDIA A100 SXM4 80 GB": "a100-nvl8", "A800-80GB": None,
    }.items():  # fmt: skip
        assert load.system_named_in(text) == system


def test_compared_systems_are_shipped() -> None:
    for comparison in ("token_prices", "model_weights", "scale_up_domains"):
        assert set(catalog.compared_systems(comparison)) <= set(catalog.system_ids())
