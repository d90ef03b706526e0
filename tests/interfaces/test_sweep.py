"""The command sweep: the same answer on one process, on a cluster of processes, and in a Parquet file."""

from __future__ import annotations

import io
import json
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import computeledger as cl
from computeledger import progress
from computeledger.errors import InputError
from computeledger.interfaces.cli import main
from computeledger.interfaces.fitting import Page
from computeledger.interfaces.tables import new_table
from computeledger.progress import Progress, listening
from computeledger.questions import executors
from computeledger.workloads.sweep import sweep
from tests.commands import call

ASKED = ["sweep", "--model", "llama-3.1-8b,llama-3.1-70b", "--system", "h100-nvl8", "--input-tokens", "1k,4k", "--json"]


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    with pytest.raises(SystemExit) as stopped:
        main([*ASKED, *arguments])
    printed = capsys.readouterr()
    assert stopped.value.code == 0, printed.err
    found: dict[str, Any] = json.loads(printed.out)
    for timed in ("wall_s", "options_per_s", "executor", "parquet"):
        found.pop(timed)
    return found


@pytest.fixture
def cluster() -> Iterator[str]:
    """Address of a cluster of two processes."""
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, host="127.0.0.1"
    ) as local:
        yield local.scheduler_address


@pytest.mark.filterwarnings("ignore")  # a cluster's own warnings about ports and time are not ours
def test_a_cluster_of_processes_gives_the_same_answer(capsys, cluster, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    here = answer(capsys, "--parquet", str(tmp_path / "here.parquet"))
    there = answer(capsys, "--cluster", cluster, "--parquet", str(tmp_path / "there.parquet"))
    assert here == there and here["n_questions"] == 4
    one, two = (parquet.read_table(tmp_path / f"{name}.parquet") for name in ("here", "there"))
    assert one.equals(two) and one.num_rows == here["n_options"]
    best = max(
        (row for row in one.to_pylist() if row["question"] == 0 and row["tpot_s"] <= 0.05),
        key=lambda row: row["output_tokens_per_s_per_gpu"],
    )
    assert best["output_tokens_per_s_per_gpu"] == here["best"][0]["output_tokens_per_s_per_gpu"]
    assert seconds_to_stop(None, cluster) < 30


def seconds_to_stop(workers: int | None, cluster: str | None) -> float:
    """How long an interrupt takes while tasks of two minutes are under way and others wait."""
    since = time.monotonic()

    def interrupted() -> None:
        with executors.open_executor(workers, cluster) as pool:
            for _ in sweep(time.sleep, [0, *[120] * 9], pool):
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    return time.monotonic() - since


def test_an_interrupt_ends_processes_at_once(capfd: pytest.CaptureFixture[str]) -> None:
    assert seconds_to_stop(2, None) < 30
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("said", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n"])
def test_what_listens_and_is_no_scheduler_is_one_line(said: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr(executors, "_CONNECT_S", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer_one() -> None:
            held, _ = server.accept()
            with held:
                held.sendall(said)
                time.sleep(2)

        threading.Thread(target=answer_one, daemon=True).start()
        address = f"tcp://127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(InputError, match="no scheduler answers there"), executors.open_executor(None, address):
            pass


def test_what_does_not_fit_is_named(capsys) -> None:
    found = answer(capsys, "--gpus", "1", "--tpot", "1ms")
    assert found["best"] == [] and len(found["without_answer"]) == 4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--workers", "2", "--cluster", "tcp://127.0.0.1:1"], "exclude each other"),
        (["--input-tokens", "1k,1k"], "given twice"),
        (["--input-tokens", "1k..2k"], "expected one number, not a range"),
        (["--parquet", "no/such/x.parquet"], "the folder 'no/such' does not exist"),
        (["--model", "llama-9"], "unknown model"),
        (["--cluster", "nonsense"], "expected the address of a Dask scheduler"),
    ],
)
def test_bad_input_is_one_line(capsys, arguments, message) -> None:
    asked = {"--model": "llama-3.1-8b", "--system": "h100-nvl8"} | dict(
        zip(arguments[::2], arguments[1::2], strict=True)
    )
    with pytest.raises(SystemExit) as stopped:
        main(["sweep", *(part for pair in asked.items() for part in pair), "--json"])
    printed = capsys.readouterr()
    assert stopped.value.code == 2 and message in printed.err and printed.err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--workers", "2", "--cluster", "tcp://127.0.0.1:1"], "exclude each other"),
        (["--cluster", "tcp://127.0.0.1:1"], "no scheduler answers there"),
    ],
)
def test_a_fit_without_its_cluster_is_one_line(
    arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr(executors, "_CONNECT_S", 0.5)
    found = call(main, ["fit", "rl", "--data", ".", *arguments], tmp_path)
    assert found.returncode == 2 and message in found.stderr and found.stderr.count("\n") == 1


@pytest.mark.parametrize(("option", "extra"), [("--cluster", "cluster"), ("--parquet", "parquet")])
def test_a_missing_extra_is_one_line(option: str, extra: str) -> None:
    with pytest.raises(InputError, match=rf"{option} needs no_such_package.*computeledger\[{extra}\]"):
        executors.needs_extra(option, "no_such_package", extra)


def test_nothing_is_left_of_a_sweep_that_fails(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")

    def fail() -> None:
        with executors.open_parquet(str(tmp_path / "x.parquet")) as append:
            append({"a": [1]})
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert list(tmp_path.iterdir()) == []


def test_sweep_and_serve_give_the_same_figures(capsys: pytest.CaptureFixture[str]) -> None:
    for best in answer(capsys)["best"][::3]:
        asked = ["--input-tokens", f"{best['input_tokens']:g}", "--tpot", "50ms"]
        with pytest.raises(SystemExit):
            main(["serve", "--model", best["model"], "--system", best["system"], *asked, "--json"])
        found = json.loads(capsys.readouterr().out)
        winner = found["winner"]
        assert found["usd_per_mtok_output"]["p50"] == pytest.approx(best["usd_per_mtok_output"])
        for name in ("layout", "batch", "tpot_s", "ttft_s", "usd_per_mtok_output"):
            assert winner[name] == (pytest.approx(best[name]) if name not in ("layout", "batch") else best[name]), name


def test_offers_rank_alike_in_a_sweep_and_in_serve_where_rents_are_skewed() -> None:
    """MI300X's rent reaches further up than down: the cost at its median rent is below the median cost."""
    systems = ["8xmi300x", "8xh200-sxm5-141gb"]
    found = cl.sweep(model="llama-3.1-70b", system=systems, gpus=8)
    for place, system in enumerate(systems):
        answer = cl.serve(model="llama-3.1-70b", system=system, gpus=8)
        assert found.best[place].usd_per_mtok_output == pytest.approx(answer.usd_per_mtok_output.p50)
        assert answer.chosen.usd_per_mtok_output == pytest.approx(answer.usd_per_mtok_output.p50)


def test_a_sweep_prints_the_shares_of_memory_that_its_engine_takes() -> None:
    for backend in ("vllm", "sglang", "llama.cpp"):
        asked = {"model": "llama-3.1-8b", "system": "1xl40s", "backend": backend}
        mine, theirs = (ask(**asked).to_dict()["assumptions"] for ask in (cl.sweep, cl.serve))
        assert (mine.items() <= theirs.items() and mine["engine_share_of_hbm_fraction"] < 1) or backend == "llama.cpp"


def test_a_request_beyond_the_context_is_without_answer_in_a_sweep_too() -> None:
    found = cl.sweep(model="qwen3-8b", system="h100-nvl8", input_tokens=(1024, "200K"))
    assert set(found.best) == {0} and "exceed the context" in found.refused[1]


def test_a_sweep_from_python_is_the_command_s() -> None:
    found = cl.sweep(model="llama-3.1-8b", system=["h100-nvl8", "h200-nvl8"], gpus=1, input_tokens=(1024, "4K"))
    assert [one.system for one in found.combinations] == 2 * ["h100-nvl8"] + 2 * ["h200-nvl8"]
    by_text = cl.sweep(found.question, input_tokens="1024,4K")
    assert found.to_dict()["best"] == by_text.to_dict()["best"] and set(found.best) == {0, 1, 2, 3}
    assert found.best[2].output_tokens_per_s_per_gpu > found.best[0].output_tokens_per_s_per_gpu, "more HBM"
    with pytest.raises(InputError, match=r"^input_tokens '1k\.\.2k': .*one number, not a range"):
        cl.sweep(found.question, input_tokens="1k..2k")
    with pytest.raises(InputError, match=r"^model: needed"):
        cl.sweep(system="h100-nvl8")


LISTS = (
    {"model": "qwen3-32b,gpt-oss-120b,llama-3.1-8b", "system": "8xh100-sxm5-80gb,8xh200-sxm5-141gb", "tables": 3},
    {"model": "qwen3-32b,gpt-oss-120b,llama-3.1-8b", "system": "8xh200-sxm5-141gb", "tables": 1},
    {"model": "gpt-oss-120b", "system": "8xh100-sxm5-80gb,8xh200-sxm5-141gb", "tables": 1},
    {
        "model": "gpt-oss-120b,nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-BF16", "system": "8xh200-sxm5-141gb",
        "tables": 2, "precision": "bf16,fp8",
    },
)  # fmt: skip


@pytest.mark.parametrize("asked", LISTS)
def test_the_tables_of_a_sweep_are_whole_at_80_columns(asked: dict[str, Any]) -> None:
    """A table that goes on below itself repeats its first column: each here is drawn once, and says what it shares."""
    given = dict(asked)
    expected = given.pop("tables")
    view = cl.sweep(**given, input_tokens="1000,8000" if expected == 3 else "1000").view()
    assert len(view.tables) == expected
    for table in view.tables:
        page = Page(file=io.StringIO(), width=80)
        page.width = 80
        drawn = new_table("", *table.columns)
        for row in table.rows:
            drawn.add_row(*row)
        page.print(drawn)
        lines = page.file.getvalue().splitlines()  # type: ignore[attr-defined]
        assert sum("\u2500\u2500" in line for line in lines) == 1, table.title
        shared = [one for one in ("model", "system") if one not in table.columns]
        assert all(str(asked[name]).rpartition("/")[2] in table.title for name in shared if "," not in str(asked[name]))


def test_two_batches_and_copies_of_experts_are_asked_everywhere() -> None:
    """What `serve` is told about experts, a sweep and a simulation hear too."""
    on: dict[str, Any] = {"model": "deepseek-v3", "system": "h200-nvl8", "two_batches": True, "redundant_experts": 8}
    lengths: dict[str, Any] = {"input_tokens": 1024, "output_tokens": 128}
    (best,) = cl.sweep(**on, **lengths).best.values()
    told = cl.serve(**on, **lengths, layout=str(best.layout), batch=best.batch)
    assert best.tpot_s == pytest.approx(told.chosen.tpot_s, rel=1e-6)
    plain = cl.serve(**(on | {"two_batches": False}), **lengths, layout=str(best.layout), batch=best.batch)
    assert abs(best.tpot_s / plain.chosen.tpot_s - 1) > 0.01
    lone = {"layout": "tp1-dp8-ep8", **lengths}
    clock = cl.simulate_serve(**on, **lone, arrivals="even:0.01", requests=3)
    alone = cl.serve(**on, **lone, batch=1)
    assert clock.percentiles["tpot_s"]["p50"] == pytest.approx(alone.chosen.tpot_s, rel=1e-3)
    assert clock.percentiles["ttft_s"]["p50"] == pytest.approx(alone.chosen.ttft_s, rel=0.01)
    with pytest.raises(InputError, match="without two_batches yet"):
        cl.sweep(**on, anchor="batch=32,isl=1024,osl=1024,tpot=21ms")


def test_long_work_says_how_far_it_is_in_this_process_and_in_others(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SILENT_S", "LATER"):
        monkeypatch.setattr(progress, name, 0.0)
    said: list[str] = []
    with listening(Progress(said.append)), ThreadPoolExecutor(2) as pool:
        assert list(sweep(abs, [-1, -2, -3], pool, what="offers")) == [1, 2, 3]
        assert list(sweep(abs, [-4, -5], what="offers")) == [4, 5]
    assert said == ["1 of 3 offers", "2 of 3 offers", "3 of 3 offers", "1 of 2 offers", "2 of 2 offers"]


def test_what_was_said_of_long_work_ends_at_its_last_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = iter([0.0, 5.0, 5.1, 5.2, 5.2])
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: next(ticks)))
    said: list[str] = []
    with listening(Progress(said.append)):
        list(progress.counted("abc", "letters"))
    assert said == ["1 of 3 letters", "3 of 3 letters"]
