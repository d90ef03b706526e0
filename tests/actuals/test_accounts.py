"""Accounts beside a run's log: jobs of Slurm, pods of Kubernetes and rows of a bill, in GPU-time, money and energy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import computeledger as cl
from computeledger.actuals.readers.accounts import ACCOUNTS, Account, bill_account, kubernetes_account, slurm_account
from computeledger.actuals.readers.tally import Tally
from computeledger.errors import InputError
from computeledger.facts.load import load_system
from computeledger.questions.answers.reconcile import ReconcileAnswer

PLAN = {
    "model": "llama-3.1-8b", "system": "h100-nvl8", "price": "$2/h", "rl": {"skip": "-"}, "inference": {"skip": "-"},
    "pretraining": {"tokens": "1B tokens", "utilization": "40%"},
}  # fmt: skip
#: 8 GPUs for 5 hours.
LEDGER = ('{"schema": "run-ledger/1", "run": "a", "workload": "pretraining", "phase": "step", "duration_s": 18000, '
          '"devices": 8, "tokens_by_kind": {"trained": 1e9}}')  # fmt: skip
#: 8 GPUs for 6 hours, of which the log has 5; a job without GPUs and a step of the job stand beside it.
SACCT = """JobID|JobName|State|ElapsedRaw|AllocTRES|ConsumedEnergyRaw
41|train|COMPLETED|21600|billing=64,cpu=64,gres/gpu:h100=8,gres/gpu=8,mem=1T,node=1|180000000
41.batch|batch|COMPLETED|21600|cpu=64,gres/gpu=8,mem=1T,node=1|179000000
42|tidy|COMPLETED|600|cpu=4,mem=8G,node=1|18446744073709551614
"""
BILL = """BilledCost,EffectiveCost,BillingCurrency,ChargeCategory,ServiceCategory
0,144.00,USD,Usage,Compute
9.5,9.5,USD,Usage,Storage
12,12,USD,Tax,Compute
"""


def settled(folder: Path, **files: str) -> ReconcileAnswer:
    """The plan with the log and other files beside it."""
    plan = folder / "plan.toml"
    sections = {name: one for name, one in PLAN.items() if isinstance(one, dict)}
    top = "\n".join(f"{name} = {json.dumps(one)}" for name, one in PLAN.items() if not isinstance(one, dict))
    parts = [f"[{name}]\n" + "\n".join(f"{key} = {json.dumps(one)}" for key, one in part.items())
             for name, part in sections.items()]  # fmt: skip
    plan.write_text("\n".join([top, *parts]))
    paths = []
    for name, text in {"run.jsonl": LEDGER, **files}.items():
        path = folder / name.replace("__", ".")
        path.write_text(text)
        paths.append(path)
    return cl.reconcile(plan, paths, calibration=str(folder / "calibration.toml"))


def test_gpu_time_that_a_job_held_beside_its_log_is_idle_and_its_energy_is_that_of_its_nodes(tmp_path: Path) -> None:
    alone = settled(tmp_path).phases["pretraining"]
    one = settled(tmp_path, sacct__txt=SACCT).phases["pretraining"]
    assert alone.actual.gpu_hours == pytest.approx(40)
    assert one.actual.gpu_hours == pytest.approx(48)
    assert one.took.gpu_s_by_phase["idle"] == pytest.approx(8 * 3600)
    assert one.usd.unplanned == pytest.approx(2.0 * 8)
    assert one.usd.total == pytest.approx(one.actual.usd - one.budget.usd)
    assert one.took.devices == (8,)
    system = load_system("h100-nvl8")  # the plan's energy is that at the facility's meter
    meter = system.facility_w_per_chip.value / system.it_w_per_chip.value
    assert one.actual.energy_j == pytest.approx(180e6 * meter)


def test_a_bill_gives_the_price_of_a_gpu_hour_and_names_what_is_not_compute(tmp_path: Path) -> None:
    found = settled(tmp_path, sacct__txt=SACCT, bill__csv=BILL)
    one = found.phases["pretraining"]
    assert one.actual.usd == pytest.approx(144)
    assert one.actual.usd_per_gpu_hour == pytest.approx(144 / 48)
    assert one.usd.price == pytest.approx((3 - 2) * 48)
    assert one.usd.total == pytest.approx(144 - one.budget.usd)
    assert any("$21.50 for other than compute" in remark for remark in found.result.remarks)
    assert not any("price edition" in remark for remark in found.result.remarks)
    far = settled(tmp_path, bill__csv=BILL.replace("144.00", "164000"))
    assert any(
        "the bill gives $4.1K per GPU-hour, where the price edition" in remark and "h100-sxm5-80gb" in remark
        for remark in far.result.remarks
    ), far.result.remarks
    priced = settled(tmp_path, bill__csv=BILL)
    assert priced.phases["pretraining"].actual.usd_per_gpu_hour == pytest.approx(144 / 40)


def pod(name: str, n_gpus: int, begin: str, end: str | None, **more: Any) -> dict[str, Any]:
    state = {"terminated": {"finishedAt": end}} if end else {"running": {"startedAt": begin}}
    limits = {"nvidia.com/gpu": str(n_gpus)} if n_gpus else {}
    return {
        "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [{"resources": {"limits": limits}}]},
        "status": {"startTime": begin, "containerStatuses": [{"state": state}], **more},
    }  # fmt: skip


def test_pods_count_from_their_placing_to_their_end_and_those_that_run_are_named(tmp_path: Path) -> None:
    placed = [{"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-11-01T00:00:00Z"}]
    pods = [
        pod("a", 8, "2026-11-01T00:10:00Z", "2026-11-01T06:00:00Z", conditions=placed),
        pod("b", 8, "2026-11-01T00:00:00Z", None),
        pod("c", 0, "2026-11-01T00:00:00Z", "2026-11-01T06:00:00Z"),
    ]
    text = json.dumps({"apiVersion": "v1", "items": pods, "kind": "List"}, indent=1)
    found = settled(tmp_path, pods__json=text)
    assert found.phases["pretraining"].actual.gpu_hours == pytest.approx(48)
    tally = found.files[-1].tally
    assert [*tally.damaged] == ["a pod that still runs, or whose start or end is not known"]
    assert [*tally.remarks] == ["a pod without accelerators"]


def test_logs_that_state_more_than_was_held_are_named_and_held_to_themselves(tmp_path: Path) -> None:
    found = settled(tmp_path, sacct__txt=SACCT.replace("21600", "9000"))
    assert found.phases["pretraining"].actual.gpu_hours == pytest.approx(40)
    assert any("40 GPU-hours, and only 20 GPU-hours were held" in said for said in found.files[-1].tally.remarks)


@pytest.mark.parametrize(
    ("read", "text", "wrong"),
    [
        (bill_account, BILL.replace("USD,Usage,Compute", "EUR,Usage,Compute"), "only USD is read"),
        (kubernetes_account, '{"items": [{"kind": "Pod"', "the pods"),
        (bill_account, BILL.replace("144.00", "-3"), "compute add up to -\\$3: the credits"),
        (slurm_account, SACCT.replace("ElapsedRaw", "Start"), "line 1: no column ElapsedRaw or Elapsed"),
        (slurm_account, SACCT.replace("AllocTRES", "ReqTRES"), "line 1: no column AllocTRES"),
        (slurm_account, SACCT.replace("|", " "), "add --parsable2"),
    ],
)
def test_an_account_that_cannot_count_is_refused(read: Any, text: str, wrong: str) -> None:
    with pytest.raises(InputError, match=wrong):
        read(enumerate(text.splitlines(), 1), Tally())


def test_charges_that_cannot_be_read_are_damage_and_credits_are_none(tmp_path: Path) -> None:
    more = "7,,USD,Usage,Compute\n7,abc,USD,Usage,Compute\n0,-4.00,USD,Usage,Compute\n"
    found = settled(tmp_path, bill__csv=BILL + more)
    assert found.phases["pretraining"].actual.usd == pytest.approx(140)
    damaged = found.to_dict()["files"][-1]["damaged"]
    assert damaged == {"a charge whose EffectiveCost is no number": {"count": 2, "first_line": 5}}
    billed = settled(tmp_path, bill__csv=BILL.replace("EffectiveCost", "ListCost").replace("\n0,144", "\n99,144"))
    assert billed.phases["pretraining"].actual.usd == pytest.approx(99)
    assert [said.startswith("no EffectiveCost, so BilledCost counts") for said in billed.files[-1].tally.remarks] == [
        True
    ]


def test_an_account_without_gpus_says_so(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="Slurm accounting: no figure in it that counts: line 2: a job without GPUs"):
        settled(tmp_path, sacct__txt="JobID|ElapsedRaw|AllocTRES\n42|600|cpu=4\n")


def test_days_hours_and_a_total_by_type_are_read() -> None:
    lines = ["JobID|Elapsed|AllocTRES", "7|1-02:03:04|gres/gpu:a100=4,gres/gpu:h100=4", "8|soon|gres/gpu=8"]
    tally = Tally()
    assert slurm_account(enumerate(lines, 1), tally) == Account(gpu_s=8 * (26 * 3600 + 184))
    assert [*tally.damaged] == ["a job without its id or its time"]


@pytest.mark.parametrize(("state", "is_said"), [("RUNNING", True), ("COMPLETED", False), ("CANCELLED by 7", False)])
def test_a_job_that_runs_counts_up_to_now_and_is_said_to(state: str, is_said: bool, tmp_path: Path) -> None:
    found = settled(tmp_path, sacct__txt=SACCT.replace("train|COMPLETED", f"train|{state}"))
    assert found.phases["pretraining"].actual.gpu_hours == pytest.approx(48)
    assert ("had not ended: its time so far is counted" in json.dumps(found.to_dict())) is is_said


@pytest.mark.parametrize("name", ["sacct__txt", "bill__csv"])
def test_an_account_alone_is_refused_in_one_line(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text({"sacct__txt": SACCT, "bill__csv": BILL}[name])
    with pytest.raises(InputError, match="counts no tokens: give the run's own log beside it"):
        cl.reconcile("examples/reconcile/plan.toml", path, calibration=str(tmp_path / "c.toml"))


def test_the_marks_tell_the_three_apart() -> None:
    heads = (SACCT, '{\n "apiVersion": "v1",\n "items": [{"kind": "Pod"', BILL)
    assert [[one.tool for one in ACCOUNTS if one.mark.search(head.encode())] for head in heads] == [
        [one.tool] for one in ACCOUNTS
    ]


_LIMITS = {"resources": {"limits": {"nvidia.com/gpu": 8}}}
_ODD = {"spec": {"containers": [_LIMITS]}, "status": {"conditions": ["x"], "containerStatuses": 5}}


@pytest.mark.parametrize("odd", [7, [1], {"items": 3}, {"items": ["x", {"spec": {"containers": 4}}, _ODD]}], ids=str)
def test_pods_of_another_shape_hold_nothing(odd: Any) -> None:
    assert kubernetes_account([(1, json.dumps(odd))], Tally()) == Account()
