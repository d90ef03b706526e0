"""Every number that a plan may state is legal or refused in one line."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from computeledger.economics.plan.keys import KINDS, SECTIONS, TOP, TRAFFIC, efficiency_keys
from computeledger.economics.plan.read import load_plan
from computeledger.economics.plan.rl_clock import planned_run, with_lag
from computeledger.errors import QuantityError
from computeledger.fields import SWITCH, TEXT, TEXTS, Field
from computeledger.interfaces.cli import main
from computeledger.workloads.rl.scenario import Domain, Split
from tests.commands import call
from tests.gates import ROOT
from tests.workloads.test_rl import RUN

_PLAN: Mapping[str, Mapping[str, str]] = {
    "plan": {"model": "llama-3.1-8b", "system": "h100-nvl8", "price": "$2/h"},
    "pretraining": {"tokens": "1T tokens", "gpus": "64", "layout": "dp64"},
    "rl": {"gpus": "8", "steps": "10", "prompts_per_step": "8", "group_size": "8", "rollout_tokens": "1K tokens",
           "prompt_tokens": "100 tokens", "layout": "tp1", "training_layout": "dp8"},
    "inference": {"input_tokens": "1K tokens", "output_tokens": "100 tokens", "layout": "tp1", "batch": "16"},
    "inference.traffic": {"rate": "1B tokens/day", "life": "1 months"},
    "inference.kinds": {},
    "experiments": {"gpu_hours": "3M GPU-hours"},
    "income": {"input_price": "$1/Mtok", "output_price": "$3/Mtok"},
    "efficiency": {},
}  # fmt: skip
#: What a key cannot stand beside, and what it needs beside it.
_WITHOUT = {
    "tokens": ("steps", "rate", "life"),
    "gpu_time_of_pretraining": ("gpu_hours",),
    **dict.fromkeys(("max_lag", "steps_in_flight", "generation_gpus", "training_gpus"), ("training_layout",)),
}
_JUDGED = {"verifier_time": "1 s", "verifier_cores": "64"}
_SUBSCRIBED = {"subscription_price": "20 USD", "paying_users": "1000"}
_BESIDE: Mapping[str, Mapping[str, str]] = {
    **dict.fromkeys(("verifier_time", "verifier_cores", "verifier_spread", "verifier_failures"), _JUDGED),
    "next_token_tokens": {"continuation_tokens": "32 tokens"},
    **dict.fromkeys(("subscription_price", "paying_users", "churn"), _SUBSCRIBED),
    "remote_gpus": {"remote_bandwidth": "100 Gbit/s"},
    **{name: {"mode": "asynchronous"} for name in ("max_lag", "steps_in_flight")},
}
_KEYS = {
    "plan": TOP,
    **SECTIONS,
    "inference.traffic": TRAFFIC,
    "inference.kinds": KINDS,
    "efficiency": efficiency_keys(),
}
_NUMBERS = [
    pytest.param(section, name, key, id=f"{section}.{name}")
    for section, keys in _KEYS.items()
    for name, key in keys.items()
    if key.dimension not in (TEXT, TEXTS, SWITCH)
]


def _written(section: str, changes: Mapping[str, str], without: tuple[str, ...] = ()) -> str:
    """A plan's text with some keys of one section changed; kinds replace the stream's own tokens."""
    tables = {name: dict(values) for name, values in _PLAN.items()}
    if section == "inference.kinds":
        del tables["inference.traffic"]
    else:
        del tables["inference.kinds"]
        tables["inference"] |= tables.pop("inference.traffic") if section != "inference.traffic" else {}
    for key in without:
        tables[section].pop(key, None)
    tables[section] |= changes
    heads = {"plan": "", "inference.traffic": "[[inference.traffic]]\n"}
    return "\n".join(
        heads.get(name, f"[{name}]\n") + "\n".join(f'{key} = "{value}"' for key, value in values.items())
        for name, values in tables.items()
    )


def _with_unit(value: str, key: Field) -> str:
    """A number with the key's unit."""
    return f"{value} {'s' if key.dimension == 's' else key.unit or ''}".strip()


@pytest.mark.parametrize(("section", "name", "key"), _NUMBERS)
def test_a_plans_number_is_legal_or_refused_in_one_line(section: str, name: str, key: Field, tmp_path: Path) -> None:
    """Minus one and what is no number are refused; the rest may be legal. No warning: the tests make those errors."""
    plan = tmp_path / "plan.toml"
    for value in ("-1", "nan", "inf", "0", "1e30"):
        changes = {**_BESIDE.get(name, {}), name: _with_unit(value, key)}
        plan.write_text(_written(section, changes, _WITHOUT.get(name, ())))
        commands = [["plan", str(plan), "--samples", "4"]]
        commands += [["simulate", "rl", str(plan), "--steps", "1"]] if section == "rl" else []
        for command in commands:
            done = call(main, command, ROOT)
            if done.returncode == 0:
                assert value in ("0", "1e30"), (name, value)
                assert not re.search(r"\b(nan|inf)\b", done.stdout), done.stdout
            else:
                assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stderr
                if value in ("-1", "nan", "inf"):
                    assert f"{name} = " in done.stderr, done.stderr


@pytest.mark.parametrize("value", ["-1", "nan:2s:8", "-30%:2s:8", "30%:-2s:8", "30%:2s:0", "inf:2s:8"])
def test_a_plans_verifier_is_legal_or_refused_in_one_line(value: str, tmp_path: Path) -> None:
    """Share, time and cores of a kind of task."""
    plan = tmp_path / "plan.toml"
    plan.write_text(_written("rl", {"verifier": value}))
    for command in (["plan", str(plan), "--samples", "4"], ["simulate", "rl", str(plan), "--steps", "1"]):
        done = call(main, command, ROOT)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stderr
        assert "[rl] verifier" in done.stderr


@pytest.mark.parametrize("cached", ["1B tokens", "100%"])
def test_an_inference_phase_does_more_than_find_tokens_in_its_cache(cached: str, tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(_written("inference.kinds", {"cached": cached}))
    done = call(main, ["plan", str(plan)], ROOT)
    assert done.returncode == 2 and "no tokens beside cached ones" in done.stderr


def test_updates_in_flight_need_a_lag_wherever_they_are_stated(tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(_written("rl", {"in_flight_updates": "yes"}))
    for command in (["plan", str(plan)], ["simulate", "rl", str(plan)]):
        done = call(main, command, ROOT)
        assert done.returncode == 2
        assert "[rl] in_flight: live rollouts take new weights only where they may" in done.stderr
    with pytest.raises(QuantityError, match=r"is_in_flight: .* max_lag must be at least 1"):
        Split(8.0, 8.0, False, 0, True)
    plan.write_text(_written("rl", {"in_flight_updates": "yes", "max_lag": "2"}, ("training_layout",)))
    asked = load_plan(plan)
    assert planned_run(asked, 1).scenario.policy_lag_steps == 2
    assert planned_run(with_lag(asked, 0), 1).scenario.policy_lag_steps == 0


def test_verifiers_judge_all_rollouts() -> None:
    with pytest.raises(QuantityError, match="domains: the shares add up to 30 %, not to 100 %"):
        replace(RUN, domains=(Domain(0.3, 2.0, 512.0),))
    assert len(replace(RUN, domains=(Domain(0.3, 2.0, 512.0), Domain(0.7, 0.0, 1.0))).domains) == 2
