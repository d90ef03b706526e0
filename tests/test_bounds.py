"""Scenarios refuse nonsense where they are made, with the field's name: through Python, commands and plans."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest

import computeledger as cl
from computeledger.bounds import NOT_NEGATIVE, POSITIVE, Bound, check_record
from computeledger.errors import InputError, PlanError
from computeledger.facts.architecture import Lora
from computeledger.interfaces.cli import cli, main
from computeledger.interfaces.options import Count
from computeledger.physics.training.batch import Stack
from computeledger.simulation.rl.scenario import RLClockScenario
from computeledger.simulation.rl.scenario import Trainer as ClockTrainer
from computeledger.simulation.state import Limits, Pool, constant_step_times
from computeledger.workloads.rl.lengths import exact_lengths
from computeledger.workloads.rl.scenario import Algorithm, Domain, Split, TextReward
from computeledger.workloads.rl.training import Trainer
from computeledger.workloads.rl.turns import Sampling
from tests.commands import call
from tests.gates import ROOT

MODEL, LAYOUT, PRECISION = cl.load_model("llama-3.1-8b"), cl.Layout(tp=2), cl.Precision()
SERVING = cl.ServingScenario(MODEL, LAYOUT, PRECISION, 1024.0, 256.0, 8.0)
BATCH = cl.Batch(4096.0, 32.0)
POOL = Pool(1, constant_step_times(8, 0.1, 0.1), Limits(8, 10_000, 0, 0, 512))
SAMPLING = Sampling(exact_lengths(1000.0), 500.0)
RECORDS: list[Any] = [
    LAYOUT, SERVING, BATCH, Stack(), Lora(8), cl.PretrainingScenario(MODEL, LAYOUT, PRECISION, BATCH),
    Domain(1.0, 1.0, 8.0), Algorithm(8.0, 4.0), TextReward(16.0), Split(8.0, 8.0), SAMPLING, Trainer(LAYOUT),
    cl.RLScenario(SERVING, SAMPLING, Algorithm(8.0, 4.0), Trainer(LAYOUT), Split(8.0, 8.0)),
    cl.Engine(), cl.ServingClock((POOL,)),
    RLClockScenario(POOL, 1.0, 1.0, ClockTrainer(1.0, 1.0, 0.0, 0.0), True, 2, 4),
]  # fmt: skip
#: Fields in which 0 has no meaning, nor infinity elsewhere.
NEVER_ZERO = {
    "tp", "pp", "dp", "cp", "ep", "output_tokens", "batch", "tokens_per_step", "rounds", "sequence_tokens",
    "global_sequences", "microbatch_sequences", "virtual_stages", "residual_streams", "imbalance", "rank",
    "prompts_per_step", "group_size", "sampling_rounds", "started_ratio", "updates_per_batch", "optimizer_steps",
    "n_cores", "pack_tokens", "n_replicas", "chunk_tokens", "live", "failure_s", "n_gpus_per_replica",
    "n_gpus_generation", "n_steps", "rollouts_per_step", "n_verifiers", "reading_ratio", "time_ratio",
    "environments", "agents", "trained_agents",
}  # fmt: skip
ENDLESS = {"rounds", "n_cores", "failure_s", "environments"}


def numeric(record: Any) -> Iterator[str]:
    """Names of a record's fields that are numbers."""
    for one in dataclasses.fields(record):
        if {"Num", "float", "int"} & {part.strip() for part in str(one.type).split("|")}:
            yield one.name


def fields() -> Iterator[Any]:
    """Every numeric field of every scenario."""
    for record in RECORDS:
        for name in numeric(record):
            yield pytest.param(record, name, id=f"{type(record).__name__}.{name}")


@pytest.mark.parametrize(("record", "name"), list(fields()))
def test_a_field_refuses_what_no_number_of_it_can_be(record: Any, name: str) -> None:
    bad = [-1.0, math.nan, np.array([1.0, math.nan]), np.array([-1.0, 1.0])]
    bad += [0.0] * (name in NEVER_ZERO) + [math.inf] * (name not in ENDLESS)
    for value in bad:
        with pytest.raises(InputError, match=rf"^{name} "):
            dataclasses.replace(record, **{name: value})
    for value in ("tp8", None, True):
        if value is None and "None" in str({one.name: one.type for one in dataclasses.fields(record)}[name]):
            continue
        with pytest.raises(InputError, match=rf"^{name}: expected a (whole )?number"):
            dataclasses.replace(record, **{name: value})
    if name not in NEVER_ZERO:
        assert getattr(dataclasses.replace(record, **{name: 0}), name) == 0


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: type(record).__name__)
def test_a_field_of_another_kind_is_refused_in_one_line(record: Any) -> None:
    others = [one.name for one in dataclasses.fields(record) if one.name not in set(numeric(record))]
    for name in others:
        with pytest.raises(InputError, match=rf"^{name}: expected .* not a (list|dict)"):
            dataclasses.replace(record, **{name: {}})


def test_what_people_write_first_is_answered() -> None:
    with pytest.raises(InputError, match="layout: expected a Layout, as parse_layout gives it, not 'tp8'"):
        cl.ServingScenario(MODEL, "tp8", PRECISION, 1024.0, 256.0, 8.0)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="system: expected a System, as load_system gives it, not 'h100-nvl8'"):
        cl.Machine("h100-nvl8")  # type: ignore[arg-type]
    with pytest.raises(PlanError, match=r"load_plan reads a file"):
        cl.read_plan("file.toml")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="input_tokens 0: must be greater than 0"):
        cl.estimate_serving(dataclasses.replace(SERVING, input_tokens=0.0), cl.Machine(cl.load_system("h100-nvl8")))


def test_a_bound_says_what_is_allowed() -> None:
    assert Bound(1.0, 4.0).problem(5.0) == "5: must be at most 4"
    assert Bound(1.0, is_open=True).problem(1.0) == "1: must be greater than 1"
    assert POSITIVE.problem(np.array([])) == "nothing: at least one number is needed"
    assert NOT_NEGATIVE.problem(math.inf) == "inf: must be finite"

    @dataclasses.dataclass(frozen=True)
    class Whole:
        steps: int

    check_record(Whole(2))
    check_record(Whole(2.0))  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"steps 2\.5: must be a whole number"):
        check_record(Whole(2.5))  # type: ignore[arg-type]


SERVE = ("serve", "--model", "llama-3.1-8b", "--system", "h100-nvl8")
PRETRAIN = ("pretrain", "--model", "llama-3.1-8b", "--system", "h100-nvl8")
RL = ("rl", "--model", "llama-3.1-8b", "--system", "h100-nvl8", "--rollout", "1K")
CLOCK = ("simulate", "serve", *SERVE[1:], "--layout", "tp1", "--arrivals", "poisson:1")
OPTIONS = [
    (SERVE, ("input-tokens", "output-tokens", "cached-tokens", "price", "batch", "gpus", "draft-tokens",
             "tokens-per-step", "rounds", "requests-per-s", "ttft", "tpot")),
    (PRETRAIN, ("tokens", "sequence-tokens", "global-batch-tokens", "price", "gpus", "interruptions-per-gpu-year",
                "checkpoint-pause", "checkpoint-interval", "restart", "stragglers")),
    (RL, ("gpus", "training-gpus", "longest", "prompt", "prompts", "group-size", "steps", "kept", "sampling-rounds",
          "oversampling", "logprob-passes", "updates", "optimizer-steps", "critic-ratio", "reward-ratio",
          "verifier-time", "verifier-cores", "live-limit", "mfu", "price")),
]  # fmt: skip


def refused(arguments: Sequence[str]) -> str:
    """The one line of a refusal."""
    done = call(main, arguments, ROOT)
    assert (done.returncode, done.stdout) == (2, ""), (arguments, done.stdout[:200])
    assert done.stderr.count("\n") == 1
    return done.stderr


@pytest.mark.parametrize(("command", "option"), [(command, name) for command, names in OPTIONS for name in names])
def test_an_option_refuses_what_no_number_of_it_can_be(command: tuple[str, ...], option: str) -> None:
    for value in ("-1", "nan", "inf", "1e999", "many"):
        assert f"--{option}" in refused([*command, f"--{option}={value}"])


@pytest.mark.parametrize(
    "arguments",
    [
        (*SERVE, "--gpus=1e30"), (*SERVE, "--gpus=10000001"), (*SERVE, "--batch=1e30"), (*PRETRAIN, "--gpus=1e30"),
        (*RL, "--gpus=1e30"), (*RL, "--training-gpus=1e30"), (*RL, "--samples=1000000000"), (*SERVE, "--samples=0"),
        (*CLOCK, "--requests=1000000000000"), (*CLOCK, "--replicas=1000000000"), (*CLOCK, "--max-batch=100000000000"),
        (*CLOCK, "--sweep=1000000000"), (*CLOCK, "--prefill-replicas=1000000000"), (*CLOCK, "--requests=-5"),
        (*PRETRAIN, "--virtual-stages=1000000000"), (*PRETRAIN, "--microbatch-sequences=1000000000000"),
        (*PRETRAIN, "--lora-rank=1000000000000"), (*PRETRAIN, "--mtp-layers=100000000000"),
    ],
    ids=lambda arguments: f"{arguments[0]} {arguments[-1]}",
)  # fmt: skip
def test_a_number_that_no_search_ends_with_is_refused_before_it(arguments: tuple[str, ...]) -> None:
    assert arguments[-1].partition("=")[0] in refused(arguments)


def commands(group: click.Group) -> Iterator[click.Command]:
    """Every command, those of its groups included."""
    context = click.Context(group)
    for one in filter(None, (group.get_command(context, name) for name in group.list_commands(context))):
        yield from commands(one) if isinstance(one, click.Group) else (one,)


def test_every_count_and_number_is_written_alike() -> None:
    """6K, 6,000 and 6e3 are one number to every option; a port is a name."""
    others = []
    for command in commands(cli):
        for option in command.params:
            if not isinstance(option, click.Option) or option.is_flag:
                continue
            if isinstance(option.type, Count):
                assert {option.type.convert(text, option, None) for text in ("6K", "6,000", "6e3", "6000")} == {6000}
            elif isinstance(option.type, click.types.IntParamType | click.types.FloatParamType):
                others.append(option.opts[0])
    assert set(others) == {"--port"}


@pytest.mark.parametrize(
    ("option", "short", "long"),
    [
        ("--input-tokens", "6K", "6000"), ("--output-tokens", "lognormal:0.1K:200 tokens", "lognormal:100:200"),
        ("--arrivals", "poisson:0.002K", "poisson:2"), ("--chunk-tokens", "2K", "2000"), ("--good", "90%", "0.9"),
    ],
)  # fmt: skip
def test_a_simulation_takes_the_spellings_of_serve(option: str, short: str, long: str) -> None:
    given_once = CLOCK[:-2] if option == "--arrivals" else CLOCK
    asked = [*given_once, "--requests", "20", "--json", option]
    assert call(main, [*asked, short], ROOT).stdout == call(main, [*asked, long], ROOT).stdout != ""


PLAN = """
model = "llama-3.1-8b"
system = "h100-nvl8"
[pretraining]
tokens = "1T tokens"
utilization = "40%"
{pretraining}
[rl]
gpus = 8
steps = 10
prompts_per_step = 8
group_size = 8
rollout = "1K tokens"
{rl}
[inference]
skip = "not served"
"""


@pytest.mark.parametrize(
    ("section", "key"),
    [("rl", "max_lag"), ("rl", "optimizer_steps"), ("rl", "oversampling"), ("pretraining", "goodput")],
)
def test_a_plan_refuses_what_no_number_of_it_can_be(section: str, key: str, tmp_path: Path) -> None:
    for value in ("-1", '"nan"', "inf", '"many"'):
        plan = tmp_path / "plan.toml"
        plan.write_text(PLAN.format(**{"pretraining": "", "rl": "", section: f"{key} = {value}"}))
        message = refused(["plan", str(plan)])
        assert key in message and section in message, message


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((*SERVE, "--tpot", "50"), "write 50ms or 50s"),
        ((*RL, "--verifier-time", "2"), "write 2ms or 2s"),
        ((*RL, "--verifier", "100%:2:512"), "write 2ms or 2s"),
        ((*RL, "--in-flight"), "state --max-lag 1"),
        ((*RL, "--verifier", "30%:2s:512"), "the shares add up to 30 %, not to 100 %"),
        ((*CLOCK, "--transfer", "32 gbps"), "did you mean 'GBps' or 'Gbps'"),
        ((*CLOCK, "--transfer", "32 gb/s"), "did you mean 'GB/s' or 'Gb/s'"),
        ((*CLOCK, "--transfer", "5GB/s"), "needs --prefill-replicas"),
        ((*CLOCK, "--turns", "1e9"), "1,000,000,000 turns; at most 10,000"),
        ((*CLOCK, "--turns", "uniform:1:1e6"), "turns; at most 10,000"),
        ((*CLOCK, "--turns", "uniform:0.5:3"), "must be at least 1"),
        ((*CLOCK, "--turns", "3", "--tool-latency", "lognormal:1s:1e30s"), "too wide: the standard deviation"),
        ((*CLOCK, "--turns", "3", "--tool-latency", "10000yr"), "too many to simulate; at most 20,000,000"),
        ((*CLOCK, "--input-tokens", "quantiles:p50=1,p51=1e6"), "too wide: the standard deviation"),
        ((*CLOCK, "--prefill-replicas", "1", "--transfer", "1B/s"), "too many to simulate; at most 20,000,000"),
        ((*CLOCK, "--failures", "1ms"), "starts over at each, and hardly ever ends"),
        ((*CLOCK, "--load-curve", "0:nan"), "loads must be finite"),
        ((*CLOCK, "--autoscale", "1", "--replicas", "10M"), "sequences: too many to simulate; at most"),
        ((*CLOCK, "--speculation", "eagle3", "--draft-tokens", "1e9"), "must be at most 1000"),
        ((*CLOCK, "--priority", "a:60%,b:60%"), "the shares add up to 120 %, not to 100 %"),
        ((*CLOCK, "--priority", "a:30%:0s"), "'0s' is not one number above 0"),
        (("prices", "show", "nope/nope"), "unknown provider 'nope': allowed: "),
        ((*PRETRAIN, "--gpus", "1000003"), "try 524,288 GPUs"),
    ],
    ids=lambda value: value[-1] if isinstance(value, tuple) else "",
)
def test_a_refusal_names_the_nearest_valid_choice(arguments: tuple[str, ...], words: str) -> None:
    assert words in refused(arguments)


def test_a_run_without_interruptions_is_legal() -> None:
    done = call(main, [*PRETRAIN, "--samples", "16", "--interruptions-per-gpu-year", "0", "--json"], ROOT)
    assert done.returncode == 0, done.stderr
    shares = json.loads(done.stdout)["goodput"]["shares"]
    assert shares["lost"]["p50"] < 1e-4 and shares["restart"]["p50"] < 1e-4
