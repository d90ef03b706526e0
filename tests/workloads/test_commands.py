"""Launch commands are read as engines take them: golden ones from their documentation, and what this project writes."""

from __future__ import annotations

import contextlib
import tomllib
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import computeledger as cl
from computeledger.errors import InputError
from computeledger.fields import question_from
from computeledger.physics.parallelism import parse_layout
from computeledger.workloads.commands.read import read_commands
from computeledger.workloads.commands.text import launches_in
from computeledger.workloads.engines import engines
from computeledger.workloads.engines.flags import flags_of, readable_engines
from computeledger.workloads.questions.serve import ServeQuestion

#: Commands of the engines' own documentation, by the page that shows them.
GOLDEN = tomllib.loads(Path(__file__).with_name("launch_commands.toml").read_text("utf-8"))


@pytest.mark.parametrize("place", GOLDEN)
def test_commands_of_the_documentation(place: str) -> None:
    said = {name: value for name, value in GOLDEN[place].items() if name != "command"}
    question = asked(GOLDEN[place]["command"])
    assert {name: getattr(question, name) for name in said} == said


def asked(text: str, **more: Any) -> ServeQuestion:
    """The question that a command asks on eight H100."""
    return question_from(ServeQuestion, {"from_command": text, "system": "h100-nvl8", "samples": 16, **more})


@pytest.mark.parametrize("engine", readable_engines())
def test_the_table_of_flags_is_one_and_sorted_out(engine: str) -> None:
    """No name stands in two lists, every list names its source, and every word of the table is written or read."""
    flags = flags_of(engine)
    file = resources.files("computeledger.workloads.engines").joinpath("flags.toml")
    table = tomllib.loads(file.read_text("utf-8"))[engine]
    names = [one.rstrip("=") for kind in ("ignored", "not_modelled") for one in table[kind].split()]
    names += [one.rstrip("=") for words in table["told"].values() for one in words.split()]
    assert len(names) == len(set(names)) and set(flags.known) == set(names)
    assert flags.source and set(flags.harmless) <= set(flags.others)
    settings_of = {one.option.split(":")[0] for one in engines()[engine].settings.values()}
    assert all(any(one.endswith(option.split()[0]) for one in names) for option in settings_of)


LAYOUTS = {
    "vllm": ("tp1", "tp8", "tp2-pp2", "tp4-dp2", "tp8-ep8", "tp1-dp8-ep8", "tp2-pp2-dp2"),
    "sglang": ("tp1", "tp8", "tp2-pp2", "tp4-dp2", "tp8-ep8", "tp1-dp8-ep8"),
    "trtllm": ("tp1", "tp8", "tp2-pp2", "tp1-dp8", "tp8-ep8", "tp1-dp8-ep8"),
}
#: Fields that a launch states.
STATED = ("model", "layout", "precision", "kv_precision", "max_batch", "chunk_tokens", "context_tokens",
          "memory_fraction", "eager", "no_prefix_cache", "draft_tokens", "mode")  # fmt: skip


@st.composite
def questions(draw: st.DrawFn) -> dict[str, Any]:
    """A question whose launch states everything that one can."""
    engine = draw(st.sampled_from(readable_engines()))
    layout = draw(st.sampled_from(LAYOUTS[engine]))
    ranks = int(parse_layout(layout).dp)
    model = draw(st.sampled_from(("Qwen/Qwen3-30B-A3B", "Qwen/Qwen3-30B-A3B-FP8", "openai/gpt-oss-120b")))
    precision = draw(st.sampled_from((None, "fp8"))) if model == "Qwen/Qwen3-30B-A3B" else None
    drafts = draw(st.sampled_from((0, 3)))
    return {
        "emit": engine, "layout": layout, "model": model, "system": "h200-nvl8", "samples": 16,
        "precision": precision if engines()[engine].quantises_on_loading else None,
        "kv_precision": draw(st.sampled_from(("bf16", "fp8"))),
        "max_batch": ranks * draw(st.integers(1, 128)), "chunk_tokens": draw(st.sampled_from((2048, 8192))),
        "context_tokens": draw(st.sampled_from((8192, 32768))), "input_tokens": 1000, "output_tokens": 100,
        "memory_fraction": draw(st.sampled_from((0.8, 0.9))), "eager": draw(st.booleans()),
        "no_prefix_cache": draw(st.booleans()), "draft_tokens": drafts, "tokens_per_step": 2.0 if drafts else 1.0,
    }  # fmt: skip


@settings(max_examples=25, deadline=None)
@given(questions())
def test_what_is_written_is_read_again(question: dict[str, Any]) -> None:
    """`--emit` and then `--from-command` give the same question, and that question the same command."""
    first = cl.serve(**question)
    text = first.to_dict()["launch"]["text"]
    more = {name: question[name] for name in ("emit", "system", "samples", "input_tokens", "output_tokens")}
    again = cl.serve(from_command=text, **more, tokens_per_step=question["tokens_per_step"])
    for name in STATED:
        assert getattr(again.question, name) == getattr(first.question, name), (name, text)
    own = again.to_dict()
    assert own["from_command"]["not_modelled"] == [] and own["from_command"]["overridden"] == []
    command = [line for line in text.splitlines() if not line.startswith("#")]
    assert [line for line in own["launch"]["text"].splitlines() if not line.startswith("#")] == command


@pytest.mark.parametrize("engine", readable_engines())
def test_two_pools_are_written_and_read_again(engine: str) -> None:
    layouts = {"prefill_layout": "tp4", "layout": "tp8"}
    given: dict[str, Any] = {
        "model": "llama-3.1-70b",
        "system": "h200-nvl8",
        "mode": "disaggregated",
        "gpus": 16,
        "samples": 16,
    }
    text = cl.serve(**given, **layouts, max_batch=64, batch=64, emit=engine).to_dict()["launch"]["text"]
    read = asked(text, system="h200-nvl8")
    assert {name: getattr(read, name) for name in layouts} == layouts
    assert (read.mode, read.max_batch, read.backend) == ("disaggregated", 64, engine)


def test_every_flag_is_one_of_four() -> None:
    read = read_commands(
        "vllm serve Qwen/Qwen3-8B -tp 2 --port 80 --attention-backend FLASHINFER --enable-prefix-caching"
    )
    assert read.fields["layout"] == "tp2"
    assert read.ignored == ("--port 80", "--enable-prefix-caching")
    assert read.not_modelled == ("--attention-backend FLASHINFER",)
    with pytest.raises(InputError, match="did you mean '--max-num-seqs'"):
        read_commands("vllm serve Qwen/Qwen3-8B --max-num-seq 8")


WITH_A_FILE = """cat >f.yml <<EOF
enable_attention_dp: true
kv_cache_config:
  dtype: fp8
EOF
trtllm-serve Qwen/Qwen3-30B-A3B --tp_size 8 --ep_size 8 --extra_llm_api_options f.yml"""


@pytest.mark.parametrize(
    ("text", "field", "value"),
    [
        ("vllm serve Qwen/Qwen3-8B --max-model-len 32k", "context_tokens", 32_000),
        ("vllm serve Qwen/Qwen3-8B --max-model-len=32K", "context_tokens", 32_768),
        ("vllm serve Qwen/Qwen3-8B --max_num_seqs 8 -dp 4", "max_batch", 32),
        ("python3 -m vllm.entrypoints.openai.api_server --model Qwen/Qwen3-8B", "model", "Qwen/Qwen3-8B"),
        ("vllm serve /models/Qwen3-8B/", "model", "Qwen3-8B"),
        ("MODEL=Qwen/Qwen3-8B; export N=4\nvllm serve $MODEL --tensor-parallel-size ${N}", "layout", "tp4"),
        ("bash -c 'cd /srv && exec vllm serve Qwen/Qwen3-8B -tp 4 2>&1 | tee log'", "layout", "tp4"),
        ("vllm serve Qwen/Qwen3-8B --no-enable-prefix-caching", "no_prefix_cache", True),
        ("vllm serve Qwen/Qwen3-8B --quantization awq", "precision", "awq"),
        ("vllm serve Qwen/Qwen3-8B-AWQ --quantization awq_marlin", "precision", None),
        ("python -m sglang.launch_server --model Qwen/Qwen3-8B --tp 4 --dp 2", "gpus", 8),
        ("python -m sglang.launch_server --model Qwen/Qwen3-30B-A3B --tp 8 --dp 8 --enable-dp-attention --ep 8",
         "layout", "tp1-dp8-ep8"),
        ("sglang serve --model-path Qwen/Qwen3-8B --chunked-prefill-size 4096", "chunk_tokens", 4096),
        ("docker run --gpus all lmsysorg/sglang:v0.5.3-cu129 python3 -m sglang.launch_server --model Qwen/Qwen3-8B",
         "backend_version", "0.5.3"),
        ("mpirun -n 8 trtllm-llmapi-launch trtllm-serve Qwen/Qwen3-8B --tp_size 8 --backend pytorch", "layout", "tp8"),
        (WITH_A_FILE, "layout", "tp1-dp8-ep8"),
        (WITH_A_FILE, "kv_precision", "fp8"),
    ],
)  # fmt: skip
def test_a_command_means_what_its_engine_makes_of_it(text: str, field: str, value: object) -> None:
    assert getattr(asked(text), field) == value


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("python -m http.server", "no launch of an engine"),
        ("llama-server -m X -ngl 99", "--backend llama.cpp"),
        ("vllm serve Qwen/Qwen3-8B -dp 100000", "100,000 data-parallel ranks"),
        ("vllm serve 'Qwen", "quotation mark"),
        ("vllm serve $MODEL", "add --model"),
        ("vllm serve /etc/passwd", "unknown model 'passwd'"),
        ("vllm serve ./pyproject.toml", "add --model"),
        ("vllm serve Qwen/Qwen3-8B --tensor-parallel-size two", "a whole number"),
        ("vllm serve Qwen/Qwen3-8B --gpu-memory-utilization 90", "a share"),
        ("vllm serve Qwen/Qwen3-8B --max-num-seqs", "a value is missing"),
        ("vllm serve Qwen/Qwen3-8B extra", "not a flag"),
        ("vllm serve Qwen/Qwen3-8B --speculative-config {", "a JSON object"),
        ("sglang serve --model Qwen/Qwen3-8B --disaggregation-mode prefill", "one of two pools"),
        ("sglang serve --model Qwen/Qwen3-8B --tp 8 --dp 3 --enable-dp-attention", "a multiple of the 3"),
        ("vllm serve a\nvllm serve b\nvllm serve c", "3 launches"),
        ("trtllm-serve Qwen/Qwen3-8B --tpsize 8", "--tp_size"),
    ],
)
def test_what_cannot_be_read_is_refused_in_a_line(text: str, said: str) -> None:
    with pytest.raises(InputError, match=said) as error:
        asked(text)
    assert "\n" not in str(error.value)


def test_options_beside_a_command_go_first_and_it_is_said() -> None:
    answer = cl.serve(
        from_command="vllm serve Qwen/Qwen3-8B -tp 2 --max-num-seqs 64", system="h100-nvl8", layout="tp1", samples=16
    ).to_dict()
    (one,) = answer["from_command"]["overridden"]
    assert one == {"field": "layout", "command": "tp2", "question": "tp1"}
    assert "--layout tp1 goes before the command's tp2" in answer["remarks"]
    translated = asked("vllm serve Qwen/Qwen3-8B -tp 2 --gpu-memory-utilization 0.9", emit="sglang")
    assert (translated.engine, translated.memory_fraction, translated.layout) == ("sglang", None, "tp2")


def test_a_folder_of_the_server_is_no_conflict() -> None:
    remarks = cl.serve(from_command="vllm serve /models/Qwen3-8B", system="h100-nvl8", samples=16).to_dict()["remarks"]
    assert "/models/Qwen3-8B is a folder of the server: taken for Qwen3-8B" in remarks
    assert not any("goes before" in one for one in remarks)


def test_weights_that_are_offloaded_have_an_option_of_their_own() -> None:
    answer = cl.serve(from_command="vllm serve Qwen/Qwen3-8B --cpu-offload-gb 4", system="h100-nvl8", samples=16)
    assert any("--host-weights counts one" in one for one in answer.to_dict()["remarks"])


def test_drafts_are_not_counted_without_their_acceptance() -> None:
    text = 'vllm serve Qwen/Qwen3-8B --speculative-config \'{"method": "eagle3", "num_speculative_tokens": 3}\''
    answer = cl.serve(from_command=text, system="h100-nvl8", samples=16).to_dict()
    assert "--tokens-per-step" in answer["from_command"]["not_modelled"][0]
    assert asked(text, tokens_per_step=2).draft_tokens == 3


def test_nothing_of_a_command_is_run_or_opened(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with the name of a model is not read, and substitutions stay words."""
    (tmp_path / "Org").mkdir()
    (tmp_path / "Org" / "Name").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="unknown model"):
        asked("vllm serve Org/Name")
    with pytest.raises(InputError):
        asked("vllm serve $(touch here) `touch here`")
    assert not (tmp_path / "here").exists()


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet="vllm serve-\\\n'\"$(){}<>|&;#=.x0 ", max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(InputError):
        assert all(one.engine == "vllm" for one in launches_in("vllm serve m " + text))
