"""A new engine is one file: every list of engines asks the folder or the calibration."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from computeledger.errors import UnknownIdError
from computeledger.physics.calibration.serving import calibrated_engines
from computeledger.physics.parallelism import parse_layout
from computeledger.questions.answers.serving.launch import check_launcher, launchers
from computeledger.validation.published.points import engine_of
from computeledger.workloads import engines
from computeledger.workloads.questions.setup import BACKENDS

TOY = """
from computeledger.workloads.engines.engine import Engine

ENGINE = Engine(
    "toy", names=("toyserve",), reads_prompts_first=True,
    refusal=lambda layout: "it has no pipeline" if layout.pp > 1 else None,
    commands=lambda one: [f"toyserve {one.model}"],
)
"""


@pytest.fixture
def with_toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "toy_of_this_test.py").write_text(TOY, "utf-8")
    monkeypatch.setattr(engines, "__path__", [*engines.__path__, str(tmp_path)])
    engines.engines.cache_clear()
    yield
    monkeypatch.undo()
    engines.engines.cache_clear()


@pytest.mark.usefixtures("with_toy")
def test_one_file_is_an_engine() -> None:
    toy = engines.engines()["toy"]
    assert "toy" in launchers() and engines.reads_prompts_first("toy")
    assert engines.named_engine("Tuning Toyserve on H200") == "toy"
    assert toy.problem(parse_layout("tp8-pp2")) == "it has no pipeline" and toy.problem(parse_layout("tp8")) is None
    assert "not over 4" in (toy.problem(parse_layout("tp8-ep4")) or "")


def test_an_engine_without_a_launcher_is_refused_with_those_that_have_one() -> None:
    for name in ("atom", "vlm"):
        with pytest.raises(UnknownIdError, match="vllm"):
            check_launcher(name)


def test_engines_with_constants_are_described_and_offered() -> None:
    assert set(calibrated_engines()) <= set(engines.engines())
    assert set(BACKENDS) == {*calibrated_engines(), "ideal"}


@pytest.mark.parametrize(
    ("source", "engine"),
    [
        ("vLLM blog: DeepSeek wide EP", "vllm"),
        ("LMSYS blog", "sglang"),
        ("TensorRT-LLM on DeepSeek-R1", "trtllm"),
        ("MLPerf", "vllm"),
    ],
)
def test_an_engine_that_is_named_goes_before_its_publisher(source: str, engine: str) -> None:
    """A model's maker in the notes does not decide which engine ran it; where none is named, the default."""
    assert engine_of({"source": source}) == engine
