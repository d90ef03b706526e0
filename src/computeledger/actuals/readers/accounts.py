"""What was held and paid for, as others count it: jobs of Slurm, pods of Kubernetes, rows of a cloud bill.

None of them counts a token, so each stands beside a run's own log. GPU-time that was held and that no log accounts for
is idle; a bill's dollars over the GPU-hours give the price; a job's energy is that of its nodes.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

from computeledger.actuals.readers.tally import Tally, amount
from computeledger.errors import InputError, shown
from computeledger.files import MOST_ROWS, parse_json
from computeledger.units import DAY_S, HOUR_S, MINUTE_S, format_usd

#: Kinds of charge of a bill that are paid for GPU-time: what is bought once and taxes are not of a run.
_USED = ("usage", "")
#: Categories of service whose charges are those of GPUs.
_COMPUTE = ("compute", "ai and machine learning")
#: Resources of a pod that are accelerators.
_ACCELERATORS = ("nvidia.com/gpu", "amd.com/gpu", "google.com/tpu", "habana.ai/gaudi")
#: Energy beyond any job's: Slurm prints the largest number that it can hold where it knows none (assumption) [J].
_MOST_JOB_J = 2.0**60
#: States of jobs that hold GPUs, or did, and may go on.
_UNDER_WAY = ("RUNNING", "SUSPENDED", "COMPLETING", "REQUEUED", "RESIZING")
#: Columns of a bill that state what a charge costs: amortised, else as it was billed; never both in one sum.
_BASES = ("EffectiveCost", "BilledCost")
#: Columns of ``sacct`` that a job is read from, one of each.
_JOB_COLUMNS = (("JobID",), ("ElapsedRaw", "Elapsed"), ("AllocTRES",))
_GPUS = re.compile(r"(?:^|,)gres/gpu=(\d+)")
_TYPED_GPUS = re.compile(r"(?:^|,)gres/gpu:[^=,]+=(\d+)")
_ELAPSED = re.compile(r"(?:(\d+)-)?(\d+):(\d\d):(\d\d)(?:\.\d+)?")


@dataclass(frozen=True, slots=True)
class Account:
    """Sums of one account: GPU-time held [GPU-s], energy of the nodes [J], dollars for compute and for other services.

    Examples
    --------
    >>> both = Account(gpu_s=7200.0) + Account(usd=5.0, node_energy_j=None)
    >>> both.gpu_s, both.usd, both.node_energy_j
    (7200.0, 5.0, None)
    """

    gpu_s: float | None = None
    node_energy_j: float | None = None
    usd: float | None = None
    other_usd: float | None = None

    def __add__(self, other: Account) -> Account:
        pairs = ((getattr(self, one.name), getattr(other, one.name)) for one in fields(self))
        return Account(*(a if b is None else b if a is None else a + b for a, b in pairs))


@dataclass(frozen=True, slots=True)
class AccountReader:
    """A kind of account: its name, the mark that tells it, and who sums it up."""

    tool: str
    mark: re.Pattern[bytes]
    read: Callable[[Iterable[tuple[int, str]], Tally], Account]


def slurm_account(lines: Iterable[tuple[int, str]], tally: Tally) -> Account:
    """Sum up jobs of ``sacct --parsable2``: GPUs of ``AllocTRES``, time of ``ElapsedRaw`` or ``Elapsed``.

    Steps of a job stand under it and are not counted again; only their energy is, where the job itself states none.

    Examples
    --------
    >>> header = "JobID|ElapsedRaw|AllocTRES|ConsumedEnergyRaw"
    >>> jobs = ["7|3600|cpu=64,gres/gpu=8,gres/gpu:h100=8|9000000", "7.batch|3600|cpu=64|", "8|60|cpu=4|"]
    >>> tally = Tally()
    >>> slurm_account(enumerate([header, *jobs], 1), tally)
    Account(gpu_s=28800.0, node_energy_j=9000000.0, usd=None, other_usd=None)
    >>> tally.remarks
    {'a job without GPUs': Seen(count=1, line=4)}
    """
    rows = csv_rows(_told_apart(lines), "|", _JOB_COLUMNS)
    held_s, energies, of_steps = 0.0, dict[str, float](), dict[str, float]()
    for number, row in rows:
        job, _, step = row.get("jobid", "").partition(".")
        joules = amount(row.get("consumedenergyraw", "")) or 0.0
        joules = joules if joules < _MOST_JOB_J else 0.0
        if step:
            of_steps[job] = of_steps.get(job, 0.0) + joules
            continue
        n_gpus, took_s = _gpus_of(row.get("alloctres", "")), _elapsed_s(row)
        if not job or took_s is None:
            tally.damage("a job without its id or its time", number)
        elif not n_gpus:
            tally.remark("a job without GPUs", number)
        else:
            if row.get("state", "").split(" ")[0] in _UNDER_WAY:
                tally.remark("a job that had not ended: its time so far is counted", number)
            held_s += n_gpus * took_s
            energies[job] = joules
            tally.observe("job_gpus", n_gpus)
    used_j = sum(joules or of_steps.get(job, 0.0) for job, joules in energies.items())
    return Account(gpu_s=held_s or None, node_energy_j=used_j or None)


def kubernetes_account(lines: Iterable[tuple[int, str]], tally: Tally) -> Account:
    """Sum up pods of ``kubectl get pods --output json`` that ended: accelerators asked for, from placing to the end.

    Examples
    --------
    >>> pod = {"metadata": {"name": "a"}, "spec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": "8"}}}]},
    ...        "status": {"startTime": "2026-01-01T00:00:00Z", "containerStatuses": [
    ...            {"state": {"terminated": {"finishedAt": "2026-01-01T02:00:00Z"}}}]}}
    >>> import json
    >>> kubernetes_account([(1, json.dumps({"kind": "List", "items": [pod]}))], Tally()).gpu_s
    57600.0
    """
    document = parse_json("\n".join(text for _, text in lines), "the pods")
    pods = _several(document, "items") or [document]
    held_s = 0.0
    for number, pod in enumerate(pods, 1):
        n_gpus = sum(_asked_of(one) for one in _several(pod, "spec", "containers"))
        if not n_gpus:
            tally.remark("a pod without accelerators", number)
            continue
        begin = _moment_s(_placed_at(pod))
        ends = [_moment_s(_at(one, "state", "terminated", "finishedAt"))
                for one in _several(pod, "status", "containerStatuses")]  # fmt: skip
        end = max((one for one in ends if one is not None), default=None)
        if begin is None or end is None or None in ends:
            tally.damage("a pod that still runs, or whose start or end is not known", number)
        elif end < begin:
            tally.damage("a pod that ended before it began", number)
        else:
            held_s += n_gpus * (end - begin)
            tally.observe("pod_gpus", n_gpus)
    return Account(gpu_s=held_s or None)


def bill_account(lines: Iterable[tuple[int, str]], tally: Tally) -> Account:
    """Sum up a cloud bill in the FOCUS form: what compute cost, amortised where the bill says so, and what else did.

    Examples
    --------
    >>> header = "BilledCost,EffectiveCost,BillingCurrency,ChargeCategory,ServiceCategory"
    >>> rows = ["0,98.32,USD,Usage,Compute", "3,3,USD,Usage,Storage", "5,5,USD,Tax,Compute"]
    >>> bill_account(enumerate([header, *rows], 1), Tally())
    Account(gpu_s=None, node_energy_j=None, usd=98.32, other_usd=8.0)
    """
    compute, other, found = 0.0, 0.0, False
    for number, row in csv_rows(lines, ","):
        basis = _BASES[0] if _BASES[0].lower() in row else _BASES[1]
        currency = row.get("billingcurrency", "").upper()
        if currency != "USD":
            raise InputError(f"line {number}: BillingCurrency {shown(currency)}: only USD is read; convert the bill")
        cost = _number(row.get(basis.lower(), ""))
        if cost is None:
            tally.damage(f"a charge whose {basis} is no number", number)
            continue
        if basis != _BASES[0] and not found:
            tally.remark(
                f"no {_BASES[0]}, so {basis} counts: it has what is paid ahead in one sum, or not at all", number
            )
        found = True
        is_used = row.get("chargecategory", "").lower() in _USED
        if is_used and row.get("servicecategory", "").lower() in _COMPUTE:
            compute += cost
        else:
            other += cost
    if compute < 0:
        raise InputError(
            f"its charges for compute add up to {format_usd(compute)}: the credits in it exceed them; "
            "give the bill of the run's own charges"
        )
    return Account(usd=compute or None, other_usd=other) if found else Account()


ACCOUNTS: tuple[AccountReader, ...] = (
    AccountReader(
        "Slurm accounting",
        re.compile(rb"^(?:\xef\xbb\xbf)?(?:[A-Za-z]+[| ]+)*JobID(?:[| ]+[A-Za-z]+)*[| ]*\r?\n"),
        slurm_account,
    ),
    AccountReader("Kubernetes pods", re.compile(rb'"kind":\s*"(?:List|Pod|PodList)"'), kubernetes_account),
    AccountReader("FOCUS bill", re.compile(rb"^(?=[^\n]*\bBilledCost\b)(?=[^\n]*\bBillingCurrency\b)"), bill_account),
)


def _told_apart(lines: Iterable[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """Lines of ``sacct``; refused where its columns have fixed widths, in which it cuts what is longer."""
    for count, (number, text) in enumerate(lines):
        if not count and "|" not in text:
            raise InputError(f"line {number}: no | between the columns, and sacct cuts long ones: add --parsable2")
        yield number, text


def csv_rows(
    lines: Iterable[tuple[int, str]], delimiter: str, needed: Sequence[Sequence[str]] = ()
) -> Iterator[tuple[int, dict[str, str]]]:
    """Rows of a table by the names of its header in small letters, each with its line; of columns needed, one of each.

    Examples
    --------
    >>> list(csv_rows([(1, "JobID|State"), (2, "7|COMPLETED")], "|"))
    [(2, {'jobid': '7', 'state': 'COMPLETED'})]
    """
    header: list[str] = []
    for count, (number, text) in enumerate(lines):
        if count > MOST_ROWS:
            raise InputError(f"more than {MOST_ROWS:,} rows")
        if not text.strip():
            continue
        cells = next(csv.reader([text], delimiter=delimiter), [])
        if header:
            yield number, dict(zip(header, (one.strip() for one in cells), strict=False))
        else:
            header = [one.strip().lstrip("\ufeff").lower() for one in cells]
            for names in needed:
                if not any(name.lower() in header for name in names):
                    raise InputError(f"line {number}: no column {' or '.join(names)}")


def _gpus_of(resources: str) -> int:
    """GPUs of a job's allocation: the total, or by type where no total stands."""
    if found := _GPUS.search(resources):
        return int(found[1])
    return sum(map(int, _TYPED_GPUS.findall(resources)))


def _elapsed_s(row: Mapping[str, str]) -> float | None:
    if raw := row.get("elapsedraw", ""):
        return amount(raw)
    found = _ELAPSED.fullmatch(row.get("elapsed", ""))
    if found is None:
        return None
    days, hours, minutes, seconds = (int(one or 0) for one in found.groups())
    return days * DAY_S + hours * HOUR_S + minutes * MINUTE_S + seconds


def _number(text: str) -> float | None:
    """A number of either sign: a credit is below zero."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _at(value: Any, *names: str) -> Any:
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _several(value: Any, *names: str) -> list[Any]:
    """A list of a document; empty where something else stands there."""
    found = _at(value, *names)
    return found if isinstance(found, list) else []


def _asked_of(container: Any) -> int:
    limits = _at(container, "resources", "limits") or {}
    counts = (amount(str(limits.get(name, 0))) or 0.0 for name in _ACCELERATORS) if isinstance(limits, dict) else ()
    return round(sum(counts))


def _placed_at(pod: Any) -> Any:
    """When a pod got its node, which is when it held its GPUs; else when it started."""
    placed = (
        _at(one, "lastTransitionTime")
        for one in _several(pod, "status", "conditions")
        if (_at(one, "type"), _at(one, "status")) == ("PodScheduled", "True")
    )
    return next(placed, None) or _at(pod, "status", "startTime")


def _moment_s(text: Any) -> float | None:
    try:
        return datetime.fromisoformat(str(text)).timestamp()
    except ValueError:
        return None
