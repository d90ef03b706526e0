"""Whatever a framework's logger is given, the run goes on and the ledger stays one that can be read."""

from __future__ import annotations

import json
import math
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import computeledger as cl
from computeledger.actuals.run_ledger import read_ledger
from tests.actuals import samples

STEP: dict[str, Any] = {
    "timing_s/step": 100.0, "timing_s/gen": 60.0, "timing_s/update_actor": 30.0, "perf/total_num_tokens": 5e6,
    "prompt_length/mean": 200.0, "response_length/mean": 800.0, "perf/throughput": 3125.0,
}  # fmt: skip
ODD: st.SearchStrategy[Any] = st.one_of(
    st.sampled_from([math.nan, math.inf, -math.inf, -1.0, 0.0, 0, 1e308, 1e-320, True, None, "60", "-", [], {}]),
    st.floats(), st.integers(), st.sampled_from([torch.tensor(3.0), torch.tensor([1.0, 2.0]), torch.tensor(math.nan)]),
)  # fmt: skip


def logged(path: Path, data: dict[str, Any], devices: int | None = 16) -> list[str]:
    """Warnings of a logger that is given one step's metrics."""
    path.unlink(missing_ok=True)
    logger = cl.FrameworkLogger(path, "verl", devices=devices)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        logger.log(data=data, step=1)
    logger.close()
    return [str(one.message) for one in caught]


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(st.sampled_from(list(STEP)), ODD), st.sets(st.sampled_from(list(STEP))), st.booleans())
def test_any_metrics_leave_a_ledger_that_can_be_read(
    tmp_path: Path, odd: dict[str, Any], missing: set[str], known: bool
) -> None:
    path = tmp_path / "run.jsonl"
    data = {name: value for name, value in {**STEP, **odd}.items() if name not in missing}
    assume(known or not missing & {"perf/total_num_tokens", "perf/throughput"})
    said = logged(path, data, 16 if known else None)
    lines = path.read_text().splitlines()
    for line in lines:
        for value in json.loads(line, parse_constant=pytest.fail).values():
            assert not isinstance(value, float) or 0 <= value < math.inf
    if lines:
        found = read_ledger(path)
        assert not found.damaged
        step_s = sum(one.duration_s for one in found.entries)
        assert step_s == pytest.approx(float(data["timing_s/step"]), rel=1e-6)
    else:
        assert said or "timing_s/step" in missing, "a step that is not written is said"


@pytest.mark.parametrize(
    ("odd", "phases", "said"),
    [
        ({"timing_s/gen": math.nan}, ["step"], "timing_s/gen is 'nan'; it is written undivided"),
        ({"timing_s/step": math.inf}, [], "timing_s/step is 'inf'; it is not written"),
        ({"timing_s/gen": torch.tensor(60.0)}, ["generation", "update", "idle"], ""),
        ({"perf/total_num_tokens": math.nan}, ["generation", "update", "idle"], ""),
    ],
)
def test_what_is_no_number_is_said(tmp_path: Path, odd: dict[str, Any], phases: list[str], said: str) -> None:
    path = tmp_path / "run.jsonl"
    warned = logged(path, STEP | odd)
    assert [json.loads(line)["phase"] for line in path.read_text().splitlines()] == phases
    assert said in "".join(warned) and bool(warned) == bool(said)


@pytest.mark.parametrize("count", [math.nan, math.inf, -1.0])
def test_a_count_that_is_none_is_refused_where_it_is_made(tmp_path: Path, count: float) -> None:
    path = tmp_path / "run.jsonl"
    with (
        cl.RunLedger(path, run="own", by_step=True) as ledger,
        pytest.raises(cl.InputError, match="sampled tokens"),
        ledger.phase("generation", 1) as counted,
    ):
        counted.generate(new_tokens=[count], context_tokens=[1])
    assert not read_ledger(path).damaged


def test_devices_that_nobody_states_are_asked_for(tmp_path: Path) -> None:
    silent = {name: value for name, value in STEP.items() if name != "perf/throughput"}
    with pytest.raises(cl.InputError, match=r"devices: how many .* no perf/throughput"):
        logged(tmp_path / "run.jsonl", silent, None)


@pytest.mark.parametrize(
    ("framework", "data", "phases"),
    [
        ("skyrl", {f"timing/{name}": float(value) for name, value in samples.SKYRL.items()},
         {"generation": 27.65, "log-probs": 47.4, "update": 191.74, "idle": 19.26}),
        ("openrlhf", samples.OPENRLHF, {"generation": 2.97, "log-probs": 1.5, "update": 6.2, "weight sync": 1.52}),
        ("areal", samples.AREAL, {"generation": 45.0, "update": 31.464, "weight sync": 103.29}),
        ("prime-rl", {"time/step": 40.0, "time/wait_for_batch": 10.0, "time/forward_backward": 25.0, "step": 1},
         {"generation": 10.0, "update": 25.0, "idle": 5.0}),
    ],
)  # fmt: skip
def test_every_framework_s_metrics_become_phases(
    tmp_path: Path, framework: str, data: dict[str, float], phases: dict[str, float]
) -> None:
    path = tmp_path / "run.jsonl"
    logger = cl.FrameworkLogger(path, framework, devices=8)
    (logger.log_train if framework == "openrlhf" else lambda step, metrics: logger.log(metrics, step))(1, data)
    logger.finish()
    entries = read_ledger(path).entries
    assert {one.phase: one.duration_s for one in entries} == pytest.approx(phases)
    if framework == "openrlhf":
        assert entries[0].tokens_by_kind == {"sampled": 16 * 112.5} and entries[0].sequences == 16
