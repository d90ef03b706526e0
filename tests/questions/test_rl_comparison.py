"""A measured RL step beside the modelled one: verdict, phases, what differs most and what would help, from any log."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import computeledger as cl
from computeledger.actuals.rl_step import read_measured_step
from computeledger.errors import InputError
from computeledger.questions.answers.rl.answer import RLAnswer
from computeledger.questions.answers.rl.comparison import REST, Comparison
from computeledger.workloads.rl.levers import levers, step_levers
from tests.actuals import samples

ASKED: dict[str, Any] = {
    "model": "llama-3.1-8b", "system": "h100-nvl8", "gpus": 16, "rollout_tokens": 1000, "prompts_per_step": 64,
    "group_size": 16, "samples": 256,
}  # fmt: skip


def compared(text: str, **given: Any) -> tuple[RLAnswer, Comparison]:
    answer = cl.rl(**{**ASKED, **given}, compare_to=text)
    assert answer.comparison is not None
    return answer, answer.comparison


@pytest.fixture(scope="module")
def plain() -> RLAnswer:
    return cl.rl(**ASKED)


def test_a_step_as_modelled_is_normal(plain: RLAnswer) -> None:
    answer, one = compared(f"step={plain.step_s.p50}")
    assert one.verdict == "within" and one.slower_fraction == pytest.approx(0.5, abs=0.02)
    assert one.phases == () and one.largest is None
    assert "is within what runs like this take" in answer.view(working=False).headline
    assert {**answer.to_dict(), "comparison": None} == {**plain.to_dict(), "comparison": None}


def test_a_slow_phase_is_named_and_mended_first(plain: RLAnswer) -> None:
    phases = {name: part.p50 for name, part in plain.phases_s.items()}
    wait_s = 3 * plain.step_s.p50
    logprobs_s = phases["old-policy log-probs"] + phases["reference log-probs"]
    text = (
        f"step={plain.step_s.p50 + wait_s},gen={phases['generation']},logprobs={logprobs_s},update={phases['update']}"
    )
    answer, one = compared(f"{text},refit={phases['weight sync'] + wait_s}")
    assert one.verdict == "slower" and one.slower_fraction == 1.0
    assert one.largest is not None and one.largest.name == "weight sync"
    assert one.savings[0].name == "weight sync as expected"
    assert one.savings[0].saved_s == pytest.approx(wait_s, rel=0.02)
    headline = answer.view(working=False).headline
    assert "slower than more than 99" in headline and "weight sync as expected" in headline.lower()
    rest = next(phase for phase in one.phases if phase.name == REST)
    # medians of samples do not add up to the median of their sum, but nearly
    assert rest.measured_s == pytest.approx(rest.expected.p50, abs=0.03 * plain.step_s.p50)


def test_a_fast_step_is_said_to_be_fast(plain: RLAnswer) -> None:
    answer, one = compared(f"step={plain.step_s.p05 / 2},update={plain.phases_s['update'].p50 / 4}")
    assert one.verdict == "faster" and one.slower_fraction == 0.0
    assert one.largest is not None and one.largest.excess_s < 0
    assert "faster than more than 99" in answer.view(working=False).headline


def test_changes_that_help_shorten_the_modelled_step(plain: RLAnswer) -> None:
    run = plain.setting.run
    found = step_levers(run.typical, run.typical_machines)
    assert found and all(one.step_s < plain.typical.step_s for one in found)
    assert [one.step_s for one in found] == sorted(one.step_s for one in found)
    shared = {one.name for one in levers(run.typical, run.typical_machines)} & {one.name for one in found}
    assert "asynchrony" in shared and "more GPUs" in {one.name for one in found}


def test_under_a_lag_a_log_s_generation_is_what_the_trainer_waited_for(tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    log.write_text(samples.nemo_rl_console())
    answer, one = compared(str(log), training_gpus=8, max_lag=1, framework="nemo-rl")
    assert one.measured.step_s == pytest.approx(samples.NEMO_RL_STEP_S) and one.measured.n_steps == 4
    assert [phase.name for phase in one.phases] == ["log-probs", "update", "weight sync", "exposed generation", REST]
    assert "NeMo RL log, 4 steps" in str(answer.view(working=False).tables)


@pytest.mark.parametrize(
    ("text", "step_s", "phases"),
    [
        (samples.slime_console(), 412.3236815929413, {"generation", "log-probs", "update", "weight sync"}),
        (samples.verl_file(), 1268.4882453735918, {"generation", "reward", "log-probs", "update"}),
        (samples.trainer_state(), None, set()),
    ],
)
def test_logs_of_every_framework_are_read(text: str, step_s: float | None, phases: set[str], tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(text)
    found = read_measured_step(str(log), 8)
    assert found.step_s > 0 and (step_s is None or found.step_s == pytest.approx(step_s, rel=1e-3))
    assert set(found.phases_s) == phases


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("generation=180", "the step's own time is missing"),
        ("step=290,sampler=3", "did you mean 'sampling'"),
        ("step=-5", "-5"),
        ("step=1..2", "a single time is needed"),
        ("step=banana", "banana"),
    ],
)
def test_what_cannot_be_read_is_said(text: str, says: str) -> None:
    with pytest.raises(InputError, match="compare-to") as caught:
        read_measured_step(text, 8)
    assert says in str(caught.value)


def test_a_reward_in_turn_is_no_rest() -> None:
    _, comparison = compared("step=70,generation=30,reward=20,update=10")
    assert {one.name: one.measured_s for one in comparison.phases}[REST] == pytest.approx(10.0)


@pytest.mark.parametrize(("layout", "fits"), [("tp1-dp64", False), ("tp8-dp8", True)])
def test_a_stated_trainer_that_does_not_fit_says_so(layout: str, fits: bool) -> None:
    asked = {**ASKED, "gpus": 64, "model": "qwen3-32b", "layout": "tp4", "sharding": "zero-1"}
    assert cl.rl(**asked, training_layout=layout).to_dict()["fits"] is fits
