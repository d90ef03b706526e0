"""Damaged files: whatever bytes a user's file holds, its reader answers, or refuses it in one line with exit code 2."""

from __future__ import annotations

import json
import random
import resource
import signal
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from computeledger.errors import InputError
from tests import headers, stored
from tests.actuals import samples
from tests.commands import Main, call
from tests.damaged import damaged
from tests.gates import ROOT, SOURCE

CASES, STRESS_CASES = 350, 20_000
LONGEST_S, MOST_BYTES = 10, 500 * 2**20

EXAMPLES, FACTS = ROOT / "examples", SOURCE / "computeledger" / "facts" / "data"


@dataclass(frozen=True)
class Target:
    """A reader of a user's file: what is damaged, under which name, and what reads it."""

    name: str
    sample: bytes
    read: Callable[[Path], None]
    beside: Sequence[tuple[str, bytes]] = ()


class TooLongError(BaseException):
    """No reader may catch it."""


def command(main: Main, *arguments: str) -> Callable[[Path], None]:
    """A command that reads the file in place of FILE: it ends with 0, or with 2 and one line, which is raised."""

    def read(path: Path) -> None:
        place = {"FILE": str(path), "FOLDER": str(path.parent)}
        done = call(main, [place.get(one, one) for one in arguments], path.parent)
        lines = done.stderr.strip().splitlines()
        if not (done.returncode == 0 or (done.returncode == 2 and len(lines) == 1)):
            raise AssertionError(f"exit code {done.returncode}, stderr {done.stderr[-300:]!r}")
        if done.returncode:
            raise InputError(lines[0])

    return read


def lines(*documents: object) -> bytes:
    """JSON lines."""
    return "".join(f"{json.dumps(one)}\n" for one in documents).encode()


def plans() -> Iterator[Target]:
    """Plans, what they name, and questions in TOML."""
    from computeledger.actuals.plan_calibration import read_calibration
    from computeledger.economics.prices.sheets import read_sheet
    from computeledger.facts.editions import load_ownership, load_prices, load_tiers
    from computeledger.facts.load import load_accelerator, load_model, load_system
    from computeledger.frontier.growth import load_scenarios
    from computeledger.interfaces.cli import main

    for name in ("small-team-rl", "rl-async", "deepseek-v3"):
        plan = (EXAMPLES / f"{name}.toml").read_bytes()
        yield Target(f"{name}.toml", plan, command(main, "plan", "FILE", "--samples", "16", "--json"))
    route = (EXAMPLES / "money" / "route-support.toml").read_bytes()
    beside = [("price-sheet.toml", (EXAMPLES / "money" / "price-sheet.toml").read_bytes())]
    yield Target("route.toml", route, command(main, "route", "FILE", "--json"), beside)
    yield Target("sheet.toml", beside[0][1], lambda path: keep(read_sheet(path)))
    config = (EXAMPLES / "frontier-moe" / "config.json").read_bytes()
    yield Target("config.json", config, command(main, "facts", "model", "FILE", "--json"))
    header = headers.gguf(headers.LLAMA_8B, headers.llama_tensors(layers=2))
    yield Target("model.gguf", header, reader_by_name(load_model))
    tensors = {"model.layers.0.self_attn.q_proj.weight": ("BF16", (64, 64), 8192), "lm_head.weight": ("F32", (8,), 32)}
    beside = [("config.json", config)]
    yield Target("model.safetensors", headers.safetensors(tensors), reader_by_name(load_model), beside)
    calibration = (
        b'schema = "plan-calibration/1"\ndate = "2026-11-01"\n[pretraining]\nmodel = "meta-llama/Meta-Llama-3.1-8B"\n'
        b'accelerator = "h100-sxm5-80gb"\ngpu_hours = 8.0\nunplanned_fraction = 0.1\ndata = ["a.log"]\n'
        b"utilization = { value = 0.4, low = 0.3, high = 0.5 }\n"
    )
    yield Target("calibration.toml", calibration, lambda path: keep(read_calibration(path)))
    for folder, file, load in (
        ("accelerators", "h100-sxm5-80gb.toml", load_accelerator), ("systems", "h100-nvl8.toml", load_system),
        ("prices", "2026-11.toml", load_prices), ("ownership", "2026-11.toml", load_ownership),
        ("tiers", "2026-11.toml", load_tiers), ("frontier", "scenarios.toml", load_scenarios),
    ):  # fmt: skip
        yield Target(f"{folder}.toml", (FACTS / folder / file).read_bytes(), reader_by_name(load))


def reader_by_name(load: Callable[[str], object]) -> Callable[[Path], None]:
    """A reader that takes an id or the path of a file."""
    return lambda path: keep(load(str(path)))


def keep(_found: object) -> None:
    """What was read is not looked at."""


def tables() -> Iterator[Target]:
    """Tables of prices, measurements, attempts, sites and requests."""
    from computeledger.actuals.profiles.profiles import read_profile
    from computeledger.economics.prices.points import read_points
    from computeledger.economics.routing.fit import read_attempts
    from computeledger.files import read_lengths
    from computeledger.frontier.epoch_files import CHIPS, TIMELINES, read_chips, read_timelines
    from computeledger.interfaces.cli import main
    from computeledger.questions.answers.prices.source import load_sheet
    from computeledger.simulation.serving.traces import read_trace
    from computeledger.workloads.pretraining.anchor import read_training_anchors
    from computeledger.workloads.rl.lengths import empirical_lengths
    from computeledger.workloads.serving.anchor import read_anchors

    attempts = b"".join((EXAMPLES / "money" / "attempts.csv").read_bytes().splitlines(keepends=True)[:40])
    yield Target("attempts.csv", attempts, lambda path: keep(read_attempts(path, load_sheet)))
    tried = [{"model": one, "task": f"t{n}", "success": n % 2, "cost": 0.1 * n} for n in range(12) for one in "ab"]
    yield Target("attempts.jsonl", lines(*tried), lambda path: keep(read_attempts(path, load_sheet)))
    prices = (
        b"prov,model,usd_in,usd_out,gateway,bucket,total,active\n"
        b"a,m,0.5,1.5,False,False,70,70\nb,n,1,2,False,False,8,2\n"
    )
    yield Target("prices.csv", prices, lambda path: keep(read_points(path)))
    for name in ("serving_curated.csv", "published_curated.csv", "rl_curated.csv"):
        rows = (SOURCE / "computeledger" / "validation" / "data" / name).read_bytes().splitlines(keepends=True)[:5]
        yield Target(name, b"".join(rows), command(main, "validate", "--data", "FILE", "--json"))
    trace = b"arrival,input_tokens,output_tokens,prefix,prefix_tokens\n0,100,50,a,64\n1.5,2000,5,,\n2,300,9,a,128\n"
    yield Target("trace.csv", trace, lambda path: keep(read_trace(path)))
    azure = (
        b"TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n"
        b"2023-11-16 18:15:50.9951690,396,109\n"
    )
    yield Target("azure.csv", azure, lambda path: keep(read_trace(path)))
    asked = [
        {"timestamp": 9 * n, "input_length": 1100 + n, "output_length": 9, "hash_ids": [0, 1, n]} for n in range(5)
    ]
    yield Target("mooncake.jsonl", lines(*asked), lambda path: keep(read_trace(path)))
    yield Target("bench.json", samples.vllm_result().encode(), lambda path: keep(read_anchors([str(path)])))
    log = samples.megatron_log().encode()
    yield Target("run.log", log, lambda path: keep(read_training_anchors([f"{path},layout=dp64"])))
    trace = json.dumps({"traceEvents": [
        {"ph": "X", "cat": "kernel", "name": f"gemm{n}", "ts": 10 * n, "dur": 5} for n in range(9)
    ]}).encode()  # fmt: skip
    yield Target("trace.json", trace, lambda path: keep(read_profile(str(path), 2)))
    kernels = b'Time (%),Total Time (ns),Instances,Name\n60.0,600,2,"gemm"\n40.0,400,2,"ncclDevKernel_AllReduce"\n'
    yield Target("kernels.csv", kernels, lambda path: keep(read_profile(str(path), 2)))
    yield Target("lengths.txt", b"812\n4096\n77\n", lambda path: keep(empirical_lengths(read_lengths(str(path)))))
    reward = b"compute,reward\n1e20,0.2\n1e21,0.4\n1e22,0.5\n1e23,0.55\n1e24,0.6\n1e25,0.62\n1e26,0.63\n"
    yield Target("reward.csv", reward, command(main, "rl", "--reward", "FILE", "--json"))
    yield Target("coverage.csv", b"k,coverage\n1,0.2\n4,0.4\n16,0.6\n64,0.7\n256,0.8\n", command(
        main, "rl", "--coverage", "FILE", "--json"))  # fmt: skip
    times = (
        b"Date,Data center,Buildings operational,H100 equivalents,IT power (MW),Power (MW),"
        b"Total capital cost (2025 USD billions)\n2025-01-01,A,1,1000,20,30,0.5\n2026-01-01,A,2,9000,90,120,4\n"
    )
    yield Target(TIMELINES, times, lambda path: keep(read_timelines(path.parent)))
    yield Target(
        CHIPS,
        b"Data center,Chip type,Date,Number of Units,User\nA,H100,2025-01-01,1000,a\n",
        lambda path: keep(read_chips(path.parent)),
    )


def logs() -> Iterator[Target]:
    """Logs and results of other tools, ledgers, and the books."""
    from computeledger.interfaces.cli import main as computeledger
    from rntp.interfaces.cli import main as rntp

    plan = str(EXAMPLES / "reconcile" / "plan.toml")
    texts = {
        "megatron.log": (EXAMPLES / "reconcile" / "megatron.log").read_text(), "titan.log": samples.torchtitan_log(),
        "verl.log": samples.verl_console(), "verl.jsonl": samples.verl_file(),
        "trainer_state.json": samples.trainer_state(),
        "vllm.json": samples.vllm_result(), "sglang.json": samples.sglang_result(), "vllm.prom": samples.vllm_scrape(),
        "power.csv": samples.power_csv(), "dcgm.txt": samples.dcgm_text(),
    }  # fmt: skip
    for name, text in texts.items():
        own = ("--gpus", "8", "--rollouts-per-step", "64", "--duration", "10 min", "--json")
        with_work = [str(EXAMPLES / "reconcile" / "megatron.log")] if name in ("power.csv", "dcgm.txt") else []
        yield Target(name, text.encode(), command(computeledger, "reconcile", plan, "FILE", *with_work, *own))
    entry = {"schema": "run-ledger/1", "run": "a", "workload": "rl", "phase": "update", "duration_s": 2.0, "devices": 8,
             "step": 1, "tokens_by_kind": {"sampled": 1e6}, "flop": 9e15, "peak_flop_per_s": 1e15,
             "versions": {"torch": "2"}, "started": "2026-09-01T12:00:00+02:00"}  # fmt: skip
    ledger = lines(entry, {**entry, "step": 2}, {**entry, "phase": "generation"})
    yield Target("ledger.jsonl", ledger, command(rntp, "ledger", "FILE", "--json"))
    yield Target("run.jsonl", ledger, command(computeledger, "books", "add", "FILE", "--book", "b.duckdb", "--json"))
    done = call(computeledger, ["plan", str(EXAMPLES / "small-team-rl.toml"), "--json", "--samples", "16"], ROOT)
    yield Target(
        "plan.json",
        done.stdout.encode(),
        command(computeledger, "books", "add", "FILE", "--book", "b.duckdb", "--json"),
    )


def trainer() -> Iterator[Target]:
    """Recipes, studies, tasks, completions, results and corpora of the trainer."""
    from rntp.corpus import documents
    from rntp.interfaces.cli import main
    from rntp.recipe import CorpusSpec
    from rntp.recipe_file import read_recipe
    from rntp.results import read_results
    from rntp.run_folder import read_metrics, read_written_recipe
    from rntp.study import read_study
    from rntp.verify.ledger import entry_of
    from rntp.verify.run import finished, pairs_of
    from rntp.verify.task import load_tasks

    recipes = ROOT / "recipes"
    for folder in ("tiny_text", "tiny_math", "must_think"):
        yield Target(
            f"{folder}.toml", (recipes / folder / "config.toml").read_bytes(), lambda path: keep(read_recipe(path))
        )
    study = (
        (recipes / "must_think" / "studies" / "lengths.toml")
        .read_bytes()
        .replace(b'"../', f'"{recipes}/must_think/'.encode())
    )
    yield Target("study.toml", study, lambda path: keep(read_study(path)))
    tasks, completions, mix = (
        (EXAMPLES / "verify" / name).read_bytes() for name in ("tasks.jsonl", "completions.jsonl", "mix.toml")
    )
    yield Target(
        "tasks.jsonl",
        tasks,
        lambda path: keep(list(pairs_of(load_tasks(path), EXAMPLES / "verify" / "completions.jsonl"))),
    )
    known = load_tasks(EXAMPLES / "verify" / "tasks.jsonl")
    yield Target("completions.jsonl", completions, lambda path: keep(list(pairs_of(known, path))))
    yield Target("mix.toml", mix, command(main, "verify", "mix", "FILE", "--count", "5"), [("tasks.jsonl", tasks)])
    verdict = {"id": "half", "score": 1.0, "status": "correct", "seconds": 0.1, "detail": "", "domain": "math",
               "environment": "math", "completion": 0, "cpu_s": 0.0, "queue_s": 0.0, "tries": 1,
               "digest": "ab"}  # fmt: skip
    results = lines(verdict, {**verdict, "id": "sum"}, {"summary": {"n": 2}})
    yield Target("results.jsonl", results, lambda path: keep([entry_of(one) for one in finished(path).values()]))
    yield Target("results.json", lines({"schema": "rntp-study/1", "rows": []}), lambda path: keep(read_results(path)))
    yield Target("recipe.json", lines({"fingerprint": "a", "recipe": {"name": "a"}, "folder": "."}),
                 lambda path: keep(read_written_recipe(path.parent)))  # fmt: skip
    yield Target(
        "metrics.jsonl", lines({"step": 1, "loss": 2.0}, {"step": 2}), lambda path: keep(read_metrics(path.parent))
    )
    corpus = lines({"text": "One day.", "id": 1, "kind": "x", "marks": [3]}, {"text": "Two days."})
    for kind, sample in (("jsonl", corpus), ("text", b"Once upon a time.\n" * 20)):
        spec = CorpusSpec(kind, (f"corpus.{kind}",))
        yield Target(f"corpus.{kind}", sample, lambda path, spec=spec: keep(list(documents(spec, path.parent))))  # type: ignore[misc]


def stores() -> Iterator[Target]:
    """Parquet, safetensors and books; the folder of a run; a trace that is simulated."""
    from computeledger.interfaces.cli import main as computeledger
    from rntp.corpus import documents
    from rntp.cost import costs
    from rntp.interfaces.cli import main as rntp
    from rntp.recipe import CorpusSpec
    from rntp.soup import check_alike, open_checkpoint

    yield Target("ledger.parquet", stored.parquet_ledger(), command(rntp, "ledger", "FILE", "--json"))
    spec = CorpusSpec("parquet", ("corpus.parquet",))
    yield Target("corpus.parquet", stored.parquet_corpus(), lambda path: keep(list(documents(spec, path.parent))))

    def checkpoint(path: Path) -> None:
        found = open_checkpoint(path.parent)
        check_alike([found, found])

    tensors, part = stored.safetensors(), "model-00001-of-00001.safetensors"
    yield Target("whole/model.safetensors", tensors, checkpoint)
    index = {"metadata": {}, "weight_map": {"w": part, "n": part}}
    yield Target("parts/model.safetensors.index.json", lines(index), checkpoint, [(f"parts/{part}", tensors)])
    listed = command(computeledger, "books", "list", "--book", "FILE", "--json")
    yield Target("whole.duckdb", stored.books(), listed)
    files = {f"run/{name}": content for name, content in stored.run_folder().items()}
    for name, content in files.items():
        yield Target(name, content, lambda path: keep(costs([path.parents[path.parent.name == "final"]], None)),
                     [one for one in files.items() if one[0] != name])  # fmt: skip
    asked = ("--model", "llama-3.1-8b", "--system", "h100-nvl8", "--layout", "tp1", "--json")
    trace = b"arrival,input_tokens,output_tokens\n0,100,50\n1.5,2000,5\n2,300,9\n"
    yield Target("served.csv", trace, command(computeledger, "simulate", "serve", *asked, "--trace", "FILE"))


@pytest.fixture(scope="module")
def targets() -> list[Target]:
    """Every reader with a file that it can read."""
    return [*plans(), *tables(), *logs(), *trainer(), *stores()]


def put(folder: Path, target: Target, data: bytes) -> Path:
    """Write a target's file and those beside it."""
    for name, content in [*target.beside, (target.name, data)]:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder / target.name


def outcome(target: Target, data: bytes, folder: Path) -> str:
    """What went wrong with a file; empty where its reader answered, or refused it in one line."""
    path = put(folder, target, data)
    try:
        target.read(path)
    except InputError as error:
        return "" if "\n" not in str(error) and len(str(error)) < 2000 else f"an error of {len(str(error))} characters"
    except (Exception, TooLongError) as error:  # noqa: BLE001 (whatever it is, it is looked for)
        where = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__}: {str(error)[:200]} ({where.filename}:{where.lineno})"
    return ""


def problems(targets: Sequence[Target], cases: range, folder: Path, limit_s: int = 0) -> list[str]:
    """Cases that no reader may leave so, each with what makes it again."""
    found = []
    for case in cases:
        target, draw = targets[case % len(targets)], random.Random(case)  # noqa: S311 (a seeded draw, no secret)
        data = damaged(target.sample, draw)
        signal.alarm(limit_s)
        words = outcome(target, data, folder)
        signal.alarm(0)
        if words:
            found.append(f"case {case}, {target.name}: {words}")
    return found


def test_every_sample_can_be_read(targets: list[Target], tmp_path: Path) -> None:
    """What is damaged below is whole."""
    for target in targets:
        target.read(put(tmp_path, target, target.sample))


def test_damaged_files_are_read_or_refused_in_one_line(targets: list[Target], tmp_path: Path) -> None:
    assert problems(targets, range(CASES), tmp_path) == []


@pytest.mark.stress
def test_twenty_thousand_damaged_files_take_little_time_and_memory(targets: list[Target], tmp_path: Path) -> None:
    def too_long(*_: object) -> None:
        raise TooLongError(f"more than {LONGEST_S} s")

    problems(targets, range(len(targets)), tmp_path)  # what is loaded once is no case's
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    signal.signal(signal.SIGALRM, too_long)
    assert problems(targets, range(STRESS_CASES), tmp_path, LONGEST_S) == []
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before < MOST_BYTES
