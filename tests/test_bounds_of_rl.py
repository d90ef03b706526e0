"""Every number of an RL question is bounded by its declaration, in the command, in Python and in a plan alike."""

from __future__ import annotations

import math
from typing import Any

import pytest

import computeledger as cl
from computeledger.bounds import check_record
from computeledger.economics.plan.keys import SECTIONS, read_key
from computeledger.errors import InputError
from computeledger.fields import SWITCH, TEXT, TEXTS, WHOLE, Field, fields_of, question_from
from computeledger.interfaces.cli import main
from computeledger.interfaces.web.pages.rl import PAGE
from computeledger.workloads.questions.rl import RLQuestion
from computeledger.workloads.rl.placement import Stated

ASKED: dict[str, Any] = {
    "model": "llama-3.1-8b", "system": "h100-nvl8", "gpus": 8, "rollout_tokens": 2000, "samples": 2,
}  # fmt: skip
#: What a field needs beside it.
BESIDE: dict[str, dict[str, Any]] = {
    "rollout_p50_tokens": {"rollout_tokens": None, "rollout_p95_tokens": "1e6"},
    "rollout_p95_tokens": {"rollout_tokens": None, "rollout_p50_tokens": 1},
    **{name: {"turns": 2} for name in ("observation_tokens", "turn_limit", "environments", "environment_cores")},
    **{name: {"continuation_tokens": 10} for name in ("next_token_tokens", "text_tokens_per_position")},
    "tokens_per_step": {"draft_tokens": 1000},
}
NUMBERS = {name: one for name, one in fields_of(RLQuestion).items() if one.dimension not in (TEXT, SWITCH, TEXTS)}


def _is_whole(one: Field) -> bool:
    return one.is_whole or one.dimension == WHOLE


def _refused(one: Field) -> dict[str, str]:
    """Values that the declaration refuses, as people type them."""
    inside = max(one.least, 1.0) + 1.5
    found = {"nan": "nan", "infinite": "inf", "huge": f"{2 * one.largest + 2:.0f}", "below": f"{one.least - 1:.0f}"}
    if one.is_open:
        found["at the end"] = f"{one.least:g}"
    return found | ({"fraction": f"{inside:g}"} if _is_whole(one) and inside < one.largest else {})


@pytest.mark.parametrize(
    ("name", "value"),
    [(name, value) for name, one in NUMBERS.items() for value in _refused(one).values()],
)
def test_what_is_outside_is_one_line_everywhere(name: str, value: str, capsys: pytest.CaptureFixture[str]) -> None:
    option = f"--{name.replace('_', '-')}"
    with pytest.raises(SystemExit) as stopped:
        main(["rl", "--model", "llama-3.1-8b", "--system", "h100-nvl8", f"{option}={value}"])
    printed = capsys.readouterr()
    assert stopped.value.code == 2 and option in printed.err and printed.err.count("\n") == 1 and not printed.out
    for given in (value, float(value)):
        with pytest.raises(InputError, match=name):
            question_from(RLQuestion, ASKED | BESIDE.get(name, {}) | {name: given})
    if name in SECTIONS["rl"]:
        with pytest.raises(InputError, match=name):
            read_key(SECTIONS["rl"][name], value, f"{name} =")


def _allowed(one: Field) -> list[float]:
    least = one.least if not one.is_open else min(max(one.least, 1e-6) * 1.001, 0.5)
    return [least, one.largest]


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, one in NUMBERS.items() for value in _allowed(one) if name != "samples"]
)
def test_what_is_at_its_ends_is_answered_or_refused_in_one_line(name: str, value: float) -> None:
    try:
        answer = cl.rl(**ASKED | BESIDE.get(name, {}) | {name: value})
    except InputError as error:
        if "\n" in str(error):
            raise
        return
    assert answer.step_s.p50 > 0 and not math.isnan(answer.gpu_hours.p50)


@pytest.mark.parametrize("name", ["observation_tokens", "rollout_tokens", "prompt_tokens", "turns", "group_size"])
def test_a_plan_takes_a_whole_number_as_the_command_does(name: str) -> None:
    asked = question_from(RLQuestion, ASKED | {"turns": 2} | {name: 300})
    assert read_key(SECTIONS["rl"][name], 300, f"{name} =") == getattr(asked, name)


def test_fields_are_declared_once_for_plan_and_page() -> None:
    plan, ours = SECTIONS["rl"], fields_of(RLQuestion)
    bounds = ("dimension", "least", "most", "is_open", "is_whole", "unit", "aliases")
    for name in ours.keys() & plan.keys():
        assert [getattr(plan[name], one) for one in bounds] == [getattr(ours[name], one) for one in bounds], name
    for control in PAGE.controls:
        one = ours[control.option.replace("-", "_")]
        assert control.whole or not _is_whole(one), control.name


@pytest.mark.parametrize("given", [0, -1, 2.5, math.nan, math.inf])
def test_records_of_runs_and_placements_have_the_bounds_of_the_command(given: float) -> None:
    count: Any = given
    with pytest.raises(InputError, match="devices"):
        cl.RunMachine(devices=count)
    with pytest.raises(InputError, match="n_gpus"):
        Stated(count)
    with pytest.raises(InputError, match="peak_flop_per_s"):
        cl.RunMachine(peak_flop_per_s=min(given, 0.0) if not math.isnan(given) else given)
    check_record(cl.RunMachine("H100", 8, 8, 1e15, "data sheet", {"torch": "2.9"}, print))
