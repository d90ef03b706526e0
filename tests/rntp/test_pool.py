"""Workers, streams and files: nothing is lost, whoever dies."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from computeledger.errors import InputError
from rntp.errors import WorkerDiedError
from rntp.interfaces.cli import main
from rntp.verify.cgroup import Group, find_hierarchy
from rntp.verify.environments import Environment, load_environments, mixture
from rntp.verify.ledger import cores_for_rate
from rntp.verify.limits import Limits
from rntp.verify.pool import LocalPool, Plan, executor_for, stream
from rntp.verify.run import finished
from rntp.verify.seccomp import REFUSED, seccomp_filter
from rntp.verify.task import Task, read_task
from tests.commands import call
from tests.gates import ROOT

#: How long a test waits for what must come: a busy machine is not a wrong result.
PATIENCE_S = 120
FOX = Task("1", "text", {"answer": " fox"})


class Scripted(Executor):
    """An executor whose futures fail or answer as told."""

    def __init__(self, failures: int) -> None:
        self.failures, self.given, self.most = failures, 0, 0

    def submit(self, fn, /, *args, **kwargs):
        future: Future = Future()
        self.given += 1
        if self.given <= self.failures:
            future.set_exception(WorkerDiedError("killed"))
        else:
            future.set_result(fn(*args, **kwargs))
        return future


@pytest.mark.parametrize(
    ("failures", "status", "tries"), [(0, "correct", 1), (1, "correct", 2), (2, "infrastructure", 2)]
)
def test_a_lost_check_is_tried_once_more(failures: int, status: str, tries: int) -> None:
    (record,) = stream([(FOX, " fox")], Scripted(failures))
    assert (record.verdict.status, record.tries) == (status, tries)
    assert (record.verdict.score is None) == (status == "infrastructure")


@pytest.fixture
def pool() -> Iterator[LocalPool]:
    with LocalPool(2) as made:
        yield made


def test_the_death_of_a_worker_fails_its_own_task_and_no_other(pool: LocalPool) -> None:
    slow, steady = pool.submit(time.sleep, PATIENCE_S), pool.submit(os.getpid)
    assert isinstance(steady.result(PATIENCE_S), int)
    with pytest.raises(WorkerDiedError, match="died while it had a task"):
        pool.submit(os.abort).result(PATIENCE_S)
    for process in pool.processes():
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    with pytest.raises(WorkerDiedError):
        slow.result(PATIENCE_S)
    assert [pool.submit(pow, n, 2).result(PATIENCE_S) for n in range(8)] == [n * n for n in range(8)]


def test_errors_of_a_call_come_back(pool: LocalPool) -> None:
    with pytest.raises(ZeroDivisionError):
        pool.submit(divmod, 1, 0).result(PATIENCE_S)
    with pytest.raises(InputError, match="unknown scorer 'none'"):
        list(stream([(Task("1", "text", {"answer": "x", "scorer": "none"}), "y")], pool))


def test_order_back_pressure_and_stop() -> None:
    taken: list[int] = []

    def source():
        for n in range(500):
            taken.append(n)
            yield FOX, " fox" if n % 3 else " dog"

    with ThreadPoolExecutor(2) as threads:
        records = stream(source(), threads, Plan(in_hand=8, ordered=True))
        first = next(records)
        assert first.place == 0 and len(taken) <= 9
        assert [record.place for record in records] == list(range(1, 500))
        stop, taken[:] = threading.Event(), []
        some = stream(source(), threads, Plan(in_hand=4, stop=stop))
        next(some)
        stop.set()
        assert 1 + len(list(some)) == len(taken) < 20


@pytest.mark.stress
def test_twenty_thousand_mixed_checks_with_killed_workers(sandbox_works: None) -> None:
    chance, answers = random.Random(1), {}  # noqa: S311 - a seeded choice
    tasks: dict[str, tuple[dict[str, Any], str]] = {
        "code": ({"domain": "code", "tests": [{"stdin": "2\n", "stdout": "4\n"}]}, "print(int(input()) ** 2)"),
        "math": ({"domain": "math", "answer": "\\frac{1}{2}"}, "$0.5$"),
        "whole": ({"domain": "math", "answer": "7"}, "\\boxed{7}"),
        "puzzle": ({"domain": "puzzle", "task": "chain_sum", "seed": 42}, "<answer>7</answer>"),
        "science": ({"domain": "science", "answer": 5, "unit": "m"}, "5 m"),
        "text": ({"domain": "text", "answer": " fox"}, " fox"),
    }

    def source():
        for n in range(20_000):
            name = chance.choice(list(tasks))
            document, text = tasks[name]
            answers[n] = wrong = chance.random() < 0.3
            yield (
                read_task({"id": str(n), **document}),
                "print(0)" if wrong and name == "code" else "0" if wrong else text,
            )

    pool, done, seen = LocalPool(2), threading.Event(), Counter[str]()
    killed = 0

    def kill() -> None:
        nonlocal killed
        while not done.wait(chance.uniform(0.5, 3)):
            if living := pool.processes():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(chance.choice(living), signal.SIGKILL)
                    killed += 1

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        for record in stream(source(), pool, Plan("warm", in_hand=32)):
            seen[record.task.id] += 1
            if record.verdict.status != "infrastructure":
                assert (record.verdict.score == 1.0) is not answers[record.place], record
    finally:
        done.set()
        killer.join()
        pool.shutdown(cancel_futures=True)
    assert seen == Counter({str(n): 1 for n in range(20_000)})
    assert killed > 10


def test_a_dask_cluster_of_separate_processes(tmp_path: Path) -> None:
    tasks, completions = files(tmp_path)
    script = tmp_path / "cluster.py"
    script.write_text(
        "import subprocess, sys\n"
        "from distributed import LocalCluster\n"
        "if __name__ == '__main__':\n"
        "    with LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster:\n"
        "        line = [sys.executable, '-m', 'rntp', 'verify', 'run', *sys.argv[1:], '--json', '--cluster']\n"
        "        sys.exit(subprocess.run([*line, cluster.scheduler_address]).returncode)\n",
        "utf-8",
    )
    line = [sys.executable, str(script), str(tasks), str(completions)]
    done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    check_lines([json.loads(text) for text in done.stdout.splitlines()])


def test_a_cluster_that_does_not_answer_is_named() -> None:
    with pytest.raises(InputError, match="expected the address of a Dask scheduler"), executor_for("nowhere"):
        pass


def files(folder: Path) -> tuple[Path, Path]:
    """Tasks and completions that need no sandbox."""
    tasks, completions = folder / "tasks.jsonl", folder / "completions.jsonl"
    lines = [
        {"id": "w", "domain": "math", "answer": "7"},
        {"id": "s", "domain": "science", "answer": "9.81", "tolerance": 0.01, "unit": "m/s^2"},
        {"id": "t", "domain": "text", "answer": " fox", "environment": "prose"},
        {"id": "none", "domain": "math", "answer": "1"},
    ]
    said = [("w", "\\boxed{7}"), ("s", "981 cm/s^2"), ("t", " dog"), ("w", "\\boxed{8}")]
    tasks.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    completions.write_text("".join(json.dumps({"id": name, "text": text}) + "\n" for name, text in said), "utf-8")
    return tasks, completions


def check_lines(lines: list[dict]) -> None:
    *verdicts, last = lines
    statuses = [("w", "correct"), ("s", "correct"), ("t", "wrong"), ("w", "wrong"), ("none", "format")]
    assert [(one["id"], one["status"]) for one in verdicts] == statuses
    assert all({"id", "score", "status", "seconds", "detail"} <= set(one) for one in verdicts)
    summary = last["summary"]
    assert summary["n"] == 5 and summary["status"] == {"correct": 2, "wrong": 2, "format": 1}
    assert summary["environments"]["prose"]["n"] == 1
    assert summary["verifications_per_s"] > 0 and summary["cpu_s_per_rollout"] > 0


@pytest.fixture
def rntp():
    def run(*arguments: object) -> subprocess.CompletedProcess[str]:
        return call(main, list(map(str, arguments)), ROOT)

    return run


def test_the_command_checks_files_and_goes_on_where_it_was(rntp, tmp_path: Path) -> None:
    tasks, completions = files(tmp_path)
    out = tmp_path / "verdicts.jsonl"
    done = rntp("verify", "run", tasks, completions, "--json", "--jobs", "1", "--out", out)
    assert done.returncode == 0, done.stderr
    check_lines([json.loads(line) for line in done.stdout.splitlines()])
    kept = out.read_text("utf-8").splitlines()
    out.write_text("\n".join([*kept[:2], kept[2][:40]]), "utf-8")  # stopped in the middle of a line
    assert len(finished(out)) == 2
    again = rntp("verify", "run", tasks, completions, "--json", "--jobs", "1", "--out", out)
    check_lines(lines := [json.loads(line) for line in again.stdout.splitlines()])
    assert lines[-1]["summary"]["resumed"] == 2
    completions.write_text(completions.read_text("utf-8").replace("{7}", "{9}"), "utf-8")
    changed = rntp("verify", "run", tasks, completions, "--jobs", "1", "--out", out, "--rollouts-per-s", "100")
    assert changed.returncode == 0 and "cores keep up with 100 rollouts/s" in changed.stdout
    assert json.loads(out.read_text("utf-8").splitlines()[-1])["summary"]["resumed"] == 3
    assert [json.loads(line).get("id") for line in out.read_text("utf-8").splitlines()].count("w") == 2


def test_an_interrupted_run_ends_in_good_order(tmp_path: Path) -> None:
    tasks, completions, out = (tmp_path / name for name in ("t.jsonl", "c.jsonl", "out.jsonl"))
    tasks.write_text('{"id": "1", "domain": "text", "answer": " fox"}\n', "utf-8")
    completions.write_text('{"id": "1", "text": " fox"}\n' * 20_000, "utf-8")
    line = [sys.executable, "-m", "rntp", "verify", "run", str(tasks), str(completions), "--out", str(out), "--json"]
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        last = json.loads(process.stdout.read().splitlines()[-1])
        assert "goes on from there" in process.stderr.read()
    assert process.returncode == 130
    assert last["summary"]["stopped"] and 0 < last["summary"]["n"] < 20_000
    assert len(finished(out)) == last["summary"]["n"]


@pytest.mark.parametrize(
    ("line", "part"),
    [
        ('{"id": "1", "domain": "maths"}', "line 1: task '1': unknown domain 'maths': did you mean 'math'?"),
        ('{"id": "1", "domain": "math", "answr": "2"}', "unknown 'answr' in domain math: did you mean 'answer'?"),
        ('{"id": "1", "domain": "math", "limits": {"wall_s": -1}}', "wall_s -1: a number from 0.01 to 1800"),
        ('{"domain": "math"}', "task: an id is needed"),
        ("{", "t.jsonl:1: not valid JSON"),
        ("[" * 100_000, "t.jsonl:1: nested too deeply, more than 64 levels"),
        ('{"id": "1", "domain": "math"}', "task '1': answer nothing cannot be used in domain math"),
    ],
)
def test_bad_files_name_their_line(line: str, part: str, rntp, tmp_path: Path) -> None:
    tasks, completions = tmp_path / "t.jsonl", tmp_path / "c.jsonl"
    tasks.write_text(line, "utf-8")
    completions.write_text('{"id": "1", "text": "2"}\n', "utf-8")
    done = rntp("verify", "run", tasks, completions, "--json", "--jobs", "1")
    assert done.returncode == 2, done.stderr
    assert part in done.stderr and len(done.stderr.splitlines()) == 1, done.stderr
    assert not done.stdout


def test_a_mixture_keeps_its_shares_and_its_seed(tmp_path: Path, rntp) -> None:
    (tmp_path / "words.jsonl").write_text('{"id": "a", "domain": "text", "answer": "x"}\n', "utf-8")
    mix = tmp_path / "mix.toml"
    text = '[environments.words]\ntasks = "words.jsonl"\n[environments.sums]\nshare = 3\npuzzle = "chain_sum"\n'
    mix.write_text(text, "utf-8")
    lines = [json.loads(line) for line in rntp("verify", "mix", mix, "--count", "400").stdout.splitlines()]
    assert 260 < Counter(line["environment"] for line in lines)["sums"] < 340
    assert len({line["id"] for line in lines}) == 400
    assert all(read_task(line).environment == line["environment"] for line in lines)
    draw = [task.spec for task, _ in zip(mixture(load_environments(mix), 5), range(50), strict=False)]
    assert draw == [task.spec for task, _ in zip(mixture(load_environments(mix), 5), range(50), strict=False)]
    alone = mixture([Environment("sums", 1.0, puzzle={"task": "chain_sum", "config": {}})], 5)
    sums = [spec for spec in draw if "seed" in spec]
    assert sums == [next(alone).spec for _ in sums]
    with pytest.raises(InputError, match="share 0"):
        next(mixture([Environment("none", 0.0, (FOX,))]))


def test_cores_for_a_rate() -> None:
    assert cores_for_rate(1000, 0.02, 0.8) == pytest.approx(25.0)
    with pytest.raises(InputError):
        cores_for_rate(1, 1, 0)


def test_version_two_control_groups(tmp_path: Path) -> None:
    """The files that would be written, on a tree that looks like one delegated to us."""
    root, proc = tmp_path / "cgroup", tmp_path / "proc"
    own = root / "run.scope"
    for folder in (root, own, proc):
        folder.mkdir(parents=True, exist_ok=True)
    (proc / "mountinfo").write_text(f"30 20 0:26 / {root} rw,nosuid - cgroup2 cgroup2 rw\n", "ascii")
    (proc / "cgroup").write_text("0::/run.scope\n", "ascii")
    contents = {"controllers": "cpu memory pids", "subtree_control": "", "type": "domain", "procs": "17\n18\n"}
    for name, text in contents.items():
        (own / f"cgroup.{name}").write_text(text, "ascii")
    hierarchy = find_hierarchy(proc)
    assert hierarchy is not None and hierarchy.version == 2
    assert (own / "cgroup.subtree_control").read_text("ascii") == "+memory +pids +cpu"
    assert (own / "rntp-home" / "cgroup.procs").read_text("ascii") == "18"
    made = own / "rntp-5-0"
    made.mkdir()
    for name in ("memory.max", "memory.swap.max", "pids.max", "cpu.max"):
        (made / name).write_text("max", "ascii")
    (made / "memory.events").write_text("low 0\noom 3\noom_kill 2\n", "ascii")
    (made / "cpu.stat").write_text("usage_usec 1500000\n", "ascii")
    group = Group(hierarchy, "5-0", Limits(memory_bytes=2**27, processes=10))
    assert int((made / "memory.max").read_text("ascii")) > 2**27
    assert (made / "pids.max").read_text("ascii") == "16" and (made / "memory.swap.max").read_text("ascii") == "0"
    assert group.kills() == 2 and group.cpu_s() == 1.5
    (proc / "cgroup").write_text("1:name=none:/\n", "ascii")
    assert find_hierarchy(proc) is None


def test_system_call_numbers_are_the_headers_() -> None:
    headers = {
        "x86_64": "/usr/include/x86_64-linux-gnu/asm/unistd_64.h",
        "aarch64": "/usr/include/asm-generic/unistd.h",
    }
    for column, (machine, header) in enumerate(headers.items()):
        assert len(seccomp_filter(machine)) % 8 == 0
        if not Path(header).exists():
            continue
        numbers = dict(
            line.split()[1:3]
            for line in Path(header).read_text("utf-8").splitlines()
            if line.startswith("#define __NR")
        )
        for name, ours in REFUSED.items():
            known = numbers.get(f"__NR_{name}") or numbers.get(f"__NR3264_{name}")
            assert known is None or int(known) == ours[column], name
