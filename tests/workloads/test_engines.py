"""A new engine is one file: every list of engines asks the folder or the calibration."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

import pytest

import computeledger as cl
from computeledger.errors import InputError, UnknownIdError
from computeledger.physics.calibration.efficiency import load_factors, median_of
from computeledger.physics.calibration.serving import calibrated_engines
from computeledger.physics.parallelism import parse_layout
from computeledger.questions.answers.serving.launch import check_launcher, launchers
from computeledger.sources import check_date
from computeledger.validation.published.points import engine_of
from computeledger.validation.serving.fit import OF_AN_ENGINE
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
    for name in ("gpt-fast", "vlm"):
        with pytest.raises(UnknownIdError, match="vllm"):
            check_launcher(name)


def test_engines_with_constants_are_described_and_offered() -> None:
    assert set(calibrated_engines()) <= set(engines.engines())
    assert set(BACKENDS) == {*engines.engines(), "generic", "ideal"}


ISSUE = ("llama.cpp", "mlx", "tgi", "lmdeploy", "atom", "gpt-fast", "neuronx", "sglang-jax", "generic")
ASKED: dict[str, str | float] = {"model": "qwen3-8b", "system": "h100-nvl8", "batch": 4, "layout": "tp1"}


@pytest.mark.parametrize("engine", ISSUE)
def test_every_engine_of_the_issue_answers_and_says_how_sure_it_is(engine: str) -> None:
    """An engine without constants of its own takes the generic ones, with a wider interval in words of its own."""
    answer, vllm = cl.serve(**ASKED, backend=engine).to_dict(), cl.serve(**ASKED, backend="vllm").to_dict()
    assert answer["backend"] == engine
    assert answer["interval"]["class"] not in (vllm["interval"]["class"], "own profile")
    spread = [one["tpot_s"]["p95"] / one["tpot_s"]["p05"] for one in (answer, vllm)]
    assert spread[0] > spread[1]


def test_generic_constants_lie_between_those_of_the_fitted_engines() -> None:
    of = {name: load_factors(name) for name in (*calibrated_engines(), "generic")}
    for name in OF_AN_ENGINE:
        values = [median_of(of[engine][name].value) for engine in calibrated_engines()]
        assert min(values) < median_of(of["generic"][name].value) < max(values)


@pytest.mark.parametrize(("given", "nearest"), [("llamacpp", "llama.cpp"), ("lmdeply", "lmdeploy"), ("vlm", "vllm")])
def test_an_unknown_engine_gets_the_nearest_name(given: str, nearest: str) -> None:
    with pytest.raises(UnknownIdError, match=nearest):
        cl.serve(**ASKED, backend=given)


LAUNCHED = {
    "llama.cpp": ("llama-server", "--parallel 4", f"--ctx-size {4 * 6400}"),
    "mlx": ("mlx_lm.server", "--decode-concurrency 4"),
    "tgi": ("text-generation-launcher", "--num-shard 1", "--max-total-tokens 6400"),
    "lmdeploy": ("lmdeploy serve api_server Qwen/Qwen3-8B", "--max-batch-size 4"),
    "atom": ("python -m atom.entrypoints.openai_server", "--max-num-seqs 4"),
    "sglang-jax": ("python3 -m sgl_jax.launch_server", "--max-running-requests 4"),
}


@pytest.mark.parametrize(("engine", "parts"), LAUNCHED.items())
def test_launch_commands_state_batch_and_context(engine: str, parts: tuple[str, ...]) -> None:
    text = cl.serve(**ASKED, emit=engine).to_dict()["launch"]["text"]
    assert all(part in text for part in parts), text


def test_an_engine_that_cannot_run_a_layout_says_why() -> None:
    with pytest.raises(InputError, match="nothing else"):
        cl.serve(**ASKED | {"layout": "tp2-pp2"}, emit="tgi").to_dict()
    with pytest.raises(InputError, match="q8_0"):
        cl.serve(**ASKED, emit="llama.cpp", kv_precision="fp8").to_dict()


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


@pytest.mark.parametrize(
    ("backend", "system", "is_said"),
    [("trtllm", "1xm4-max", True), ("trtllm", "h100-nvl8", False), ("vllm", "8xmi325x", False), ("atom", "1xl4", True)],
)
def test_an_engine_on_chips_that_it_does_not_run_on_is_remarked_on(backend: str, system: str, is_said: bool) -> None:
    answer = cl.serve(model="qwen3-4b", system=system, layout="tp1", batch=1, backend=backend, samples=16)
    assert any("nobody can run this" in one for one in answer.to_dict()["remarks"]) is is_said


def test_dates_of_releases_are_of_engines_that_exist_and_lie_in_the_past() -> None:
    file = resources.files("computeledger.workloads.engines").joinpath("releases.toml")
    tables = tomllib.loads(file.read_text("utf-8"))
    until = tables.pop("about")["date"]
    assert set(tables) <= set(engines.engines())
    days = {(name, version): day for name, table in tables.items() for version, day in table.items()}
    assert all(check_date(day, version) <= until for (_, version), day in days.items())
    assert all(re.fullmatch(r"\d+(\.\d+){2,3}(rc\d+)?(\.post\d+)?", version) for _, version in days)
    for first, then in (("0.4.0", "0.6.0"), ("0.6.0", "0.11.0"), ("0.11.0", "0.28.0")):
        assert days["vllm", first] < days["vllm", then]
