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
    assert one.savings[0].name == "weight sync in its expected time"
    assert one.savings[0].saved_s == pytest.approx(wait_s, rel=0.02)
    view = answer.view(working=False)
    assert "slower than more than 99" in view.headline and "weight sync in its expected time" in view.context.lower()
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


def test_under_a_lag_a_side_saves_at_most_what_the_other_leaves() -> None:
    lagged = {"training_gpus": 8, "max_lag": 1}
    _, one = compared("step=290,generation=289,update=250,weight_sync=1", **lagged)
    saved = {each.name: each.saved_s for each in one.savings}
    assert saved["update in its expected time"] == pytest.approx(1.0) and "more GPUs that train" not in saved
    assert max(saved.values()) <= 290 - 250
    _, other = compared("step=290,generation=150,update=280", **lagged)
    held = {each.name: each.saved_s for each in other.savings}
    assert held["update in its expected time"] <= 290 - 150
    assert held["generation in its expected time"] == pytest.approx(10.0)
    assert all(each.gpu_time_ratio > 0 for each in (*one.savings, *other.savings))


@pytest.mark.parametrize(
    ("text", "step_s", "phases"),
    [
        (samples.slime_console(), 412.3236815929413, {"generation", "log-probs", "update", "weight sync"}),
        (samples.verl_file(), 1268.4882453735918, {"generation", "reward", "log-probs", "update"}),
        (samples.skyrl_console(), 286.05, {"generation", "log-probs", "update"}),
        (samples.openrlhf_console(), 12.19, {"generation", "log-probs", "update", "weight sync"}),
        (samples.areal_console(), 179.754, {"generation", "update", "weight sync"}),
        (samples.trainer_state(), None, set()),
    ],
)
def test_logs_of_every_framework_are_read(text: str, step_s: float | None, phases: set[str], tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(text)
    found = read_measured_step(str(log))
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
        ("step=0", "more than 0 s"),
        ("step=290,gen=180,rollout=180", "gen has said it already"),
    ],
)
def test_what_cannot_be_read_is_said(text: str, says: str) -> None:
    with pytest.raises(InputError, match="compare-to") as caught:
        read_measured_step(text)
    assert says in str(caught.value)


def test_a_reward_in_turn_is_no_rest() -> None:
    _, comparison = compared("step=70,generation=30,reward=20,update=10")
    assert {one.name: one.measured_s for one in comparison.phases}[REST] == pytest.approx(10.0)


@pytest.mark.parametrize(("layout", "fits"), [("tp1-dp64", False), ("tp8-dp8", True)])
def test_a_stated_trainer_that_does_not_fit_says_so(layout: str, fits: bool) -> None:
    asked = {**ASKED, "gpus": 64, "model": "qwen3-32b", "layout": "tp4", "sharding": "zero-1"}
    assert cl.rl(**asked, training_layout=layout).to_dict()["fits"] is fits


@pytest.mark.parametrize(
    ("text", "is_refused", "is_refused_with_lag"),
    [
        ("step=60,generation=90", True, False),
        ("step=60,generation=40,update=30", True, False),
        ("step=60,exposed_generation=40,update=30", True, True),
        ("step=60,update=61", True, True),
        ("step=60,generation=30,update=20,logprobs=10", False, False),
        ("step=60,generation=50,reward=40", False, False),  # verdicts come while rollouts go on
    ],
)
def test_phases_that_cannot_lie_within_their_step_are_refused(
    text: str, is_refused: bool, is_refused_with_lag: bool
) -> None:
    step = read_measured_step(text)
    for lagged, refused in ((False, is_refused), (True, is_refused_with_lag)):
        if refused:
            with pytest.raises(InputError, match="compare-to"):
                step.check(lagged)
        else:
            step.check(lagged)


def test_a_log_of_another_run_says_where_it_differs(tmp_path: Path) -> None:
    log = tmp_path / "verl.jsonl"
    log.write_text(samples.verl_file())
    answer, one = compared(str(log), framework="verl")
    # 3,840 rollouts of 5,322,462 tokens with prompts of 154.8, on the 8 accelerators that its throughput tells
    stated = {"rollout_tokens": 1231.2, "prompt_tokens": 154.8, "rollouts": 3840.0, "gpus": 8.0}
    assert one.measured.stated == pytest.approx(stated, rel=1e-3)
    assert {each.name for each in one.differences} == {"GPUs", "mean rollout", "mean prompt", "rollouts a step"}
    warning = " ".join(answer.view(working=False).warnings).replace("\xa0", " ")
    assert "mean rollout 1.23K tokens, the question's 1K tokens" in warning and "--rollout-tokens 1231" in warning


def test_a_log_tells_the_mean_rollout_and_the_gpus_of_a_question_that_names_none(tmp_path: Path) -> None:
    log = tmp_path / "verl.jsonl"
    log.write_text(samples.verl_file())
    bare = {name: value for name, value in ASKED.items() if name not in ("gpus", "rollout_tokens", "prompts_per_step")}
    taken = cl.rl(**bare, prompt_tokens=154.8, prompts_per_step=240, compare_to=str(log))
    named = cl.rl(**bare, prompt_tokens=154.8, prompts_per_step=240, gpus=8, rollout_tokens=1231.2)
    assert taken.comparison is not None and not taken.comparison.differences
    assert taken.comparison.taken == {"rollout_tokens": 1231.2, "gpus": 8}
    assert taken.step_s.p50 == pytest.approx(named.step_s.p50)
    notes = " ".join(taken.view(working=False).notes).replace("\xa0", " ")
    assert "taken from the log: mean rollout 1.23K tokens, 8 GPUs" in notes
    with pytest.raises(InputError, match="how long is a rollout"):
        cl.rl(**bare, compare_to="step=60")


def test_nemo_rl_states_rollouts_and_gpus_by_its_rates(tmp_path: Path) -> None:
    # the sample step of a public guide: 16 prompts of 64 rollouts on 8 GPUs
    lines = [
        "===== Step 1/2 =====", "  - Mean Generation Length: 201.2197", "  - Total step time: 35.70s",
        "  - policy_training: 10.97s (30.7%)", "  - generation: 4.95s (13.9%)", "    - E2E (Samples/sec/gpu): 3.59",
        "    - E2E (Tokens/sec/gpu): 1073.59", "    - E2E (Samples/sec): 28.68", "    - E2E (Tokens/sec): 8588.75",
    ]  # fmt: skip
    log = tmp_path / "log"
    log.write_text("\n".join(lines))
    stated = read_measured_step(str(log)).stated
    assert (stated["rollouts"], stated["gpus"]) == (16 * 64, 8)
    assert stated["rollout_tokens"] + stated["prompt_tokens"] == pytest.approx(8588.75 / 28.68)


def test_a_record_of_several_steps_is_read_as_one_of_them(tmp_path: Path) -> None:
    log = tmp_path / "trainer_state.json"
    log.write_text(samples.trainer_state(step_s=6.5))
    found = read_measured_step(str(log))
    assert found.step_s == pytest.approx(6.5) and found.n_steps == 30


def test_generation_beside_the_trainer_is_what_the_trainer_waited_for(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(samples.openrlhf_console(changed={"timing/generation": 30.0}))
    found = read_measured_step(str(log))
    assert found.step_s == pytest.approx(12.19) and found.phases_s["generation"] == pytest.approx(
        12.19 - 1.5 - 6.2 - 1.52
    )
    assert (found.stated["rollouts"], found.stated["rollout_tokens"]) == (16.0, 112.5)
