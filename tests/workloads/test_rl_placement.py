"""Where an RL run stands: what a refusal says would fit does fit, and no GPU is lost from the account."""

from __future__ import annotations

import random
import re
from typing import Any

import numpy as np
import pytest

import computeledger as cl
from computeledger.economics.plan.read import read_plan
from computeledger.economics.plan.rl_clock import planned_run
from computeledger.errors import DoesNotFitError, InputError, LayoutError
from computeledger.physics.parallelism import parse_layout
from computeledger.simulation.rl.clock import simulate_rl
from computeledger.workloads.rl.generation import OUTSIDE

#: Models, and chips in domains and counted by name.
_MODELS = ("llama-3.1-8b", "qwen3-32b", "llama-3.1-70b", "qwen3-30b-a3b", "qwen3-235b-a22b")
_SYSTEMS = ("h100-nvl8", "h200-nvl8", "8xl40s", "gb200-nvl72", "tpu-v5p-pod")
_ASKED: dict[str, Any] = {"samples": 2, "prompts_per_step": 16, "group_size": 8}


def _drawn(rng: random.Random) -> dict[str, Any]:
    """A question with any of layouts, split, lag and search stated."""
    gpus = rng.choice((2, 4, 6, 8, 12, 16, 24, 40, 64))
    found: dict[str, Any] = {"model": rng.choice(_MODELS), "system": rng.choice(_SYSTEMS), "gpus": gpus}
    found["rollout_tokens"] = rng.choice((500, 4000, 16000))
    if found["system"] == "8xl40s":
        found["gpus"] = gpus = 8
    if rng.random() < 0.5:
        found["layout"] = rng.choice(("tp1", "tp2", "tp4", "tp8", "tp4-pp2"))
    if rng.random() < 0.4:
        found["training_gpus"] = rng.randint(1, gpus - 1)
    if rng.random() < 0.4:
        found["training_layout"] = rng.choice(("tp1", "tp4", "tp8-pp2", "dp3", "tp2-dp3"))
    if rng.random() < 0.3:
        found |= {"max_lag": 1, "framework": rng.choice(("generic", "areal", "prime-rl"))}
    return found | _ASKED | ({"search": True} if rng.random() < 0.2 else {})


#: Draws that take a second or two each, of kinds that others are of too.
_LONG = (1, 7, 9, 17, 20)


@pytest.mark.parametrize(
    "seed", [pytest.param(one, marks=[pytest.mark.stress] * (one in _LONG)) for one in (*range(24), 144, 182)]
)
def test_what_a_refusal_says_would_fit_does_and_what_is_answered_adds_up(seed: int) -> None:
    given = _drawn(random.Random(seed))  # noqa: S311 (draws questions)
    free = {name: value for name, value in given.items() if "layout" not in name and name != "training_gpus"}
    try:
        answer = cl.rl(**given)
    except DoesNotFitError as error:
        said = str(error)
        if how := re.search(r"it would fit on ([\d,]+) GPUs? \((.*), generation (\S+), trainer ([\w-]+)\)", said):
            again = cl.rl(**free | _of(given["system"], int(how[1].replace(",", "")))).to_dict()
            split = again["split"]
            assert again["fits"] and (split["layout"], split["training_layout"]) == (how[3], how[4])
            assert split["colocated"] == (how[2] == "in turns")
        else:
            n = re.search(r"nor does it fit ([\d,]+) GPUs", said)
            assert n is not None, said
            with pytest.raises(InputError):
                cl.rl(**free | _of(given["system"], int(n[1].replace(",", ""))))
        return
    except LayoutError:
        return  # a stated layout larger than its side, or one that the model's heads do not divide
    _check_account(answer, given)


def _of(system: str, n: int) -> dict[str, Any]:
    """So many GPUs of a system; a system that counts them by name counts them anew."""
    return {"gpus": n, "system": re.sub(r"^\d+x", f"{n}x", system)}


def _check_account(answer: cl.RLAnswer, given: dict[str, Any]) -> None:
    """Phases add up to the GPUs given, and what a layout leaves out is idle."""
    result, document = answer.typical, answer.to_dict()
    one, whole = result.scenario, float(np.asarray(result.gpu_s_per_step))
    if not document["fits"]:
        assert given.get("layout") or given.get("training_layout"), "the search finds what fits, or says so"
        return
    parts = {name: float(np.asarray(part)) for name, part in result.phases_gpu_s.items()}
    assert sum(parts.values()) == pytest.approx(whole) and min(parts.values()) >= -1e-9 * whole
    trained = parse_layout(document["split"]["training_layout"]).n_gpus
    used = float(one.n_replicas) * float(one.engine.layout.n_gpus)
    spare = one.split.n_generation - used + one.split.n_training - trained
    assert (parts[OUTSIDE] > 1e-9 * whole) == (spare > 0)
    ends = result.timeline_s.values()
    assert all(sum(map(float, side.values())) == pytest.approx(float(np.asarray(result.step_s))) for side in ends)


def test_gpus_outside_a_stated_layout_are_idle_and_paid() -> None:
    given: dict[str, Any] = {
        "model": "qwen3-8b",
        "system": "h100-nvl8",
        "gpus": 16,
        "training_gpus": 8,
        "rollout_tokens": 1000,
    }
    whole, part = (cl.rl(**_ASKED, **given, training_layout=one) for one in ("tp2-dp4", "tp2-dp3"))
    assert part.gpu_hours.p50 > whole.gpu_hours.p50 and part.usd.p50 > whole.usd.p50
    assert part.utilization_fraction.p50 < whole.utilization_fraction.p50
    spent, step_s = part.typical.phases_gpu_s, float(np.asarray(part.typical.step_s))
    both_s = float(np.asarray(spent["weight sync"] + spent["once per step"])) / 16
    assert float(np.asarray(spent[OUTSIDE])) == pytest.approx(2 * (step_s - both_s)), "two GPUs, but for what all share"
    assert not any("GPUs that" in said for said in whole.remarks)
    assert any("6 of 8 GPUs that train" in said for said in part.remarks)
    left = cl.rl(**_ASKED, **given | {"gpus": 14, "training_gpus": 4}, layout="tp4")
    assert any("8 of 10 GPUs that generate" in said for said in left.remarks)


def test_data_parallel_degrees_need_not_be_powers_of_two() -> None:
    given: dict[str, Any] = {"model": "qwen3-32b", "system": "h100-nvl8", "gpus": 48, "rollout_tokens": 2000}
    given |= _ASKED | {"prompts_per_step": 48, "training_gpus": 24}
    found = cl.rl(**given)
    searched = parse_layout(found.to_dict()["split"]["training_layout"])
    assert searched.n_gpus == 24
    for layout in ("tp8-dp2", "tp8-dp3", "tp4-pp2-dp3", "tp4-dp6", "tp8-pp2"):
        stated = cl.rl(**given, training_layout=layout)
        if stated.to_dict()["fits"]:
            ours, theirs = (np.asarray(one.typical.training.wall_s) for one in (found, stated))
            assert float(ours) <= 1.001 * float(theirs), layout


def test_the_simulation_counts_them_too() -> None:
    rl = {"gpus": 14, "training_gpus": 4, "layout": "tp4", "training_layout": "dp3", "steps": 4,
          "rollout_tokens": "1K tokens", "prompt_tokens": "100 tokens", "prompts_per_step": 16,
          "group_size": 8}  # fmt: skip
    plan = read_plan({"model": "llama-3.1-8b", "system": "h100-nvl8", "price": "$2/h", "rl": rl,
                      "pretraining": {"skip": "open weights"}, "inference": {"skip": "not served"}})  # fmt: skip
    run = planned_run(plan, 4)
    parts = simulate_rl(run.scenario, run.rollouts).gpu_s()
    step_s = float(np.sum([*parts.values()])) / 14
    assert 2 * 0.9 * step_s < parts[OUTSIDE] < 3 * step_s, "two that generate and one that trains"
    assert min(parts.values()) >= 0
