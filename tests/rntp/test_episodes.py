"""Environments of several turns: what is read is not trained on, who fails has no reward, processes go in step."""

from __future__ import annotations

import math
import re
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from computeledger.actuals.run_ledger import read_ledger
from computeledger.errors import InputError
from rntp.episodes import Episodes
from rntp.errors import EpisodeError, TrainingError
from rntp.interfaces.cli import main
from rntp.models import make_tokenizer
from rntp.recipe import EnvironmentSpec, ModelSpec, ThoughtSpec
from rntp.recipe_file import fingerprint, parse_recipe, read_recipe
from rntp.run import run
from tests.gates import ROOT
from tests.rntp import talking, tiny
from tests.rntp.test_trainer import TWO, launched

RECIPE = ROOT / "recipes" / "tiny_tools" / "config.toml"
WORDS = tiny.TOKENIZER.decode


@pytest.fixture(autouse=True)
def one_thread() -> None:
    """Two threads on a busy machine are slower than one."""
    torch.set_num_threads(1)


class Kept(talking.Fixed):
    """Keeps what an update is made of."""

    def _advantages(self, inputs: Any, thoughts: Any, values: Any, unaided: Any) -> Any:
        self.thoughts, self.values = thoughts, values.values.copy()
        return super()._advantages(inputs, thoughts, values, unaided)


def test_what_the_environment_says_is_read_and_not_trained_on(tmp_path: Path) -> None:
    done = talking.trained(talking.recipe(tmp_path, steps=1, prompts_per_step=2, group_size=2), [2, 4], Kept)
    three, one = done.thoughts.completions[0], done.thoughts.completions[2]
    parts = WORDS(three).split("</think>")
    assert [part.split("<think>")[0].split()[-2:] for part in parts[1:3]] == [["w32", "w1"], ["w31", "w1"]]
    assert len(parts) == 4 and "<think>" not in WORDS(one)
    # three turns of a thought of two words and its end, and of a message of two words and its end
    untrained = [three[n] for n, mask in enumerate(done.thoughts.trained[0]) if not mask]
    end = tiny.TOKENIZER.convert_tokens_to_ids("</think>")
    assert WORDS([token for token in untrained if token != end]) == "w32 w1 <think> w31 w1 <think>"
    assert sum(done.thoughts.trained[0]) == 3 * (3 + 3) and sum(done.thoughts.trained[2]) == 6
    # rewards of the turns are added up
    assert np.floor(done.values).tolist() == [3, 3, 1, 1] and (done.values[:2] > 3.2).all()
    logged = next(entry for entry in done.state.log_history if "loss" in entry)
    assert logged["turns/counting"] == 2 and logged["cut_fraction/counting"] == logged["failed_fraction/counting"] == 0
    assert logged["context/tokens"] == 3 and logged["thought/tokens"] == 6 and logged["answer/tokens"] == 6


@pytest.mark.parametrize(("limits", "turns"), [({"turns": 2}, 2), ({"episode_tokens": 24}, 1)])
def test_a_limit_ends_an_episode_with_the_rewards_so_far(limits: dict[str, Any], turns: int, tmp_path: Path) -> None:
    made = talking.recipe(tmp_path, steps=1, prompts_per_step=1, group_size=2, **limits)
    done = talking.trained(made, [3], Kept)
    assert done.values.tolist() == pytest.approx([0.1 * turns] * 2)
    assert [play.turns for play in done.thoughts.plays] == [turns, turns]
    assert next(entry for entry in done.state.log_history if "loss" in entry)["cut_fraction/counting"] == 1
    assert len(done.thoughts.completions[0]) <= (limits.get("episode_tokens") or 99)


#: Where the next class stands.
FAILING = "tests.rntp.test_episodes:Failing"


class Failing(talking.Counting):
    """Every second object of it fails, in a way that its class says."""

    made = 0
    error: Exception = EpisodeError("the tool did not answer")

    def __init__(self) -> None:
        super().__init__()
        type(self).made += 1
        self._fails = type(self).made % 2 == 0

    def step(self, text: str) -> tuple[str, bool, float]:
        """Fail, or count."""
        if self._fails:
            raise self.error
        return super().step(text)


def test_a_machine_that_failed_gives_no_reward_and_is_reported(tmp_path: Path) -> None:
    made = talking.recipe(tmp_path, source=FAILING, steps=1, prompts_per_step=1, group_size=4)
    done = talking.trained(made, [0], Kept)
    assert np.floor(done.values[~np.isnan(done.values)]).tolist() == [1, 1] and np.isnan(done.values).sum() == 2
    assert next(e["failed_fraction/counting"] for e in done.state.log_history if "loss" in e) == 0.5
    assert len(done._episodes["counting"]._idle) == 2  # an object that failed is not used again


def test_a_fault_of_the_environment_stops_the_run_with_its_seed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Failing, "error", KeyError("port"))
    made = talking.recipe(tmp_path, source=FAILING, steps=1, prompts_per_step=1, group_size=2)
    with pytest.raises(TrainingError, match=r"step 1: environment 'counting', seed 6: KeyError: 'port' .*line \d+"):
        talking.trained(made, [6])


class Odd:
    """Does what it is told to do wrong."""

    def __init__(self, how: str) -> None:
        self.how = how
        self.tools = None

    def reset(self, seed: int) -> Any:
        """A prompt, or what is none."""
        return {"number": seed, "messages": [{"role": "user", "content": "w1"}]}.get(self.how, "w1")

    def step(self, text: str) -> Any:
        """What a step may not give, or nothing for a long time."""
        if self.how == "stuck":
            STUCK.wait(5)
        return {"pair": ("w1", False), "endless": ("w1", True, math.inf), "nan": ("", True, math.nan)}.get(self.how)


STUCK = threading.Event()


def odd(how: str, **given: Any) -> tuple[Episodes, Any]:
    """An episode of it."""
    spec = EnvironmentSpec("odd", source="tests.rntp.test_episodes:Odd", config={"how": how}, **given)
    episodes = Episodes(spec, tiny.TOKENIZER, Path(), 99)
    return episodes, episodes.begin([5])[0]


@pytest.mark.parametrize(
    ("how", "fault"),
    [
        ("number", "reset gives 5: a text, or messages with role and content are needed"),
        ("messages", "reset gives messages, and the tokenizer has no chat template"),
        ("pair", ": (observation, done, reward) is needed"),
        ("endless", "the reward inf: a finite number is needed"),
    ],
)
def test_what_an_environment_may_not_give_is_said(how: str, fault: str) -> None:
    episodes, play = odd(how)
    if not play.is_over:
        episodes.answered([play], ["w1"], [[]])
    assert fault in play.fault


def test_a_step_that_does_not_come_back_is_given_up_and_the_next_has_a_thread() -> None:
    episodes, play = odd("stuck", timeout_s=0.05)
    episodes.answered([play], ["w1"], [[]])
    assert play.failure == "no answer within 0.05 s" and math.isnan(play.value) and not play.fault
    again = episodes.begin([1])[0]
    assert not again.is_over and WORDS(again.prompt_ids) == "<doc> w1"
    STUCK.set()
    episodes, play = odd("nan")
    episodes.answered([play], ["w1"], [[]])
    assert "no reward" in play.failure and math.isnan(play.value)


def test_a_source_that_is_none_is_refused() -> None:
    spec = EnvironmentSpec("a", source="tests.rntp.test_episodes:Odd")
    with pytest.raises(InputError, match=r"environment 'tests.rntp.test_episodes:Odd': takes .how"):
        Episodes(spec, tiny.TOKENIZER, Path(), 9)
    with pytest.raises(InputError, match="gives a Place without reset"):
        Episodes(EnvironmentSpec("a", source="tests.rntp.test_episodes:place"), tiny.TOKENIZER, Path(), 9).begin([1])
    given = {"model": {"path": "m"}, "environments": [{"name": "a", "source": "lookup"}]}
    with pytest.raises(InputError, match=r"unknown \[environments\] source 'lookup': .*MODULE:FUNCTION"):
        parse_recipe(given)
    given["environments"] = [{"name": "a", "tasks": "t.jsonl", "turns": 3}]
    with pytest.raises(InputError, match="turns is for an environment with source"):
        parse_recipe(given)


def place() -> Any:
    """No environment."""
    return tiny.places(1)[0]


#: What closes a message in it is no end of a text.
TEMPLATE = (
    "{% for m in messages %}[ {{ m.role }} {{ m.content }} <eos> {% endfor %}"
    "{% if add_generation_prompt %}[ assistant {% endif %}"
)


class Chat:
    """Speaks in messages."""

    def reset(self, seed: int) -> list[dict[str, str]]:
        """Two messages."""
        return [{"role": "system", "content": "be short"}, {"role": "user", "content": f"ask {seed}"}]

    def step(self, text: str) -> tuple[list[dict[str, str]], bool, float]:
        """A tool's message."""
        return [{"role": "tool", "content": f"got {text}"}], False, 0.0


@pytest.mark.parametrize(("closed", "begins"), [(True, "[ tool got go"), (False, "<eos> [ tool got go")])
def test_messages_pass_through_the_chat_template_and_a_closed_one_is_not_closed_again(
    closed: bool, begins: str
) -> None:
    words = "[ system user assistant tool be short ask 7 got go <eos>"
    tokenizer = make_tokenizer(ModelSpec(tokenizer="word"), ThoughtSpec(), [words])
    tokenizer.chat_template = TEMPLATE
    episodes = Episodes(EnvironmentSpec("a", source="tests.rntp.test_episodes:Chat"), tokenizer, Path(), 99)
    play = episodes.begin([7])[0]
    assert tokenizer.decode(play.prompt_ids) == "[ system be short <eos> [ user ask 7 <eos> [ assistant"
    last = [tokenizer.eos_token_id] if closed else [9]
    seen = tokenizer.decode(episodes.answered([play], ["go"], [last])[0])
    assert seen == f"{begins} <eos> [ assistant"


def test_a_message_ends_at_the_stop_of_its_environment(tmp_path: Path) -> None:
    class Told(Kept):
        def _sample(self, prompts: list[list[int]], each: int) -> Any:
            ids, _ = super()._sample(prompts, each)
            stop = tiny.TOKENIZER.convert_tokens_to_ids("w9")
            return [[ids[n][0], stop, ids[n][1]] if each == 1 else ids[n] for n in range(len(ids))], None

    made = talking.recipe(tmp_path, steps=1, prompts_per_step=1, group_size=2, stop=("w9",))
    done = talking.trained(made, [1], Told)
    assert all(WORDS(ids).split()[-1] == "w9" for ids in done.thoughts.completions)
    assert done._episodes["counting"]._idle[0].texts[0].split()[-1] == "w9"


def test_processes_generate_as_often_and_make_the_gradients_of_one(tmp_path: Path) -> None:
    """One process has the long episodes, the other the short ones: sharded models need them to go in step."""
    code = f"from tests.rntp.talking import main; main({str(tmp_path / 'two')!r}, {str(tmp_path / 'two.npy')!r})"
    script = tmp_path / "two.py"
    script.write_text(f"import sys; sys.path.insert(0, {str(ROOT)!r}); {code}\n")
    said = launched(*TWO, str(script))
    made = talking.recipe(tmp_path / "one", steps=1, prompts_per_step=4, group_size=2, max_grad_norm=0.0)
    done = talking.trained(made, [3, 2, 0, 0])
    assert re.findall(r"passes (\d+)", said) == [str(done.passes)] * 2 and done.passes == 8
    assert np.abs(done.gradients - np.load(tmp_path / "two.npy")).max() < 1e-5
    assert np.abs(done.gradients).max() > 1e-4


def test_the_model_learns_to_use_its_tool(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The shipped recipe: guessing is right once in six, looking up twice is right."""
    made = read_recipe(RECIPE, [f"output={tmp_path / 'run'}", "rl.steps=14", "rl.save_steps=0"])
    rewards: list[float] = []

    def report(_stage: str, _step: int, _steps: int, figures: Mapping[str, float]) -> None:
        rewards.extend([figures["reward/register"]] if "reward/register" in figures else [])

    found = run(made, report=report)
    assert len(rewards) == 14
    assert np.mean(rewards[-4:]) > np.mean(rewards[:4]) + 0.12, rewards
    assert found["phases"]["verification"]["gpu_hours"] > 0
    entries = read_ledger(tmp_path / "run" / "ledger.jsonl").entries
    sampled = sum(e.tokens_by_kind.get("sampled", 0) for e in entries if e.phase == "generation")
    kept = sum(e.tokens_by_kind.get("kept", 0) for e in entries if e.phase == "update")
    assert 0 < kept <= sampled  # what was read is in neither
    with pytest.raises(SystemExit) as ended:
        main(["evaluate", str(tmp_path / "run"), "--places", "32", "--thoughts", "2"])
    assert ended.value.code == 0
    said = capsys.readouterr().out
    assert "register: pass@k of 32 tasks of seeds that training never takes" in said
    trained, before = map(float, re.findall(r"mean score: trained ([\d.]+), before RL ([\d.]+)", said)[0])
    assert trained > before


def test_a_recipe_without_the_new_keys_keeps_its_name() -> None:
    plain = {"name": "a", "model": {"path": "m"}, "environments": [{"name": "a", "tasks": "t.jsonl"}]}
    full = {**plain, "environments": [{"name": "a", "tasks": "t.jsonl", "turns": 8, "stop": [], "timeout_s": 300}]}
    assert fingerprint(parse_recipe(plain)) == fingerprint(parse_recipe(full)) == "add46a87d4e36543"
