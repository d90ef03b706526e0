"""From files to records of the books: a plan, a plan's answer, a run's ledger, a reconciliation; told by content."""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from computeledger.actuals.run_ledger import SCHEMA, Entry, read_ledger
from computeledger.actuals.run_summary import summary
from computeledger.arrays import Uncertain
from computeledger.economics.ledger import estimate_ledger
from computeledger.economics.plan import load_plan
from computeledger.errors import InputError, shown
from computeledger.interfaces.book_store import AMOUNTS, Record
from computeledger.interfaces.documents import plan_document
from computeledger.interfaces.wording import point
from computeledger.physics.efficiency import middle

Amounts = dict[str, float | None]


def read_record(path: Path, price: Uncertain | None, name: str | None, note: str) -> Record:
    """What a file holds, as one record."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise InputError(f"{shown(str(path))}: no such file") from None
    except IsADirectoryError:
        raise InputError(f"{shown(str(path))}: is a folder, a file is needed") from None
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    kind, document, amounts, phases, happened = _contents(path, data, price)
    own = document.get("title") or ", ".join(document.get("runs", ())) or path.stem
    digest = hashlib.sha256(data).hexdigest()
    return Record(kind, name or str(own), happened or now, amounts, phases, document, digest, note)


def _contents(
    path: Path, data: bytes, price: Uncertain | None
) -> tuple[str, dict[str, Any], Amounts, dict[str, Amounts], str]:
    """Kind, document, amounts, amounts by phase, and when it happened."""
    if path.suffix == ".toml":
        document = plan_document(estimate_ledger(load_plan(str(path)), 4096, 0))
        return ("plan", document, *_plan_amounts(document), "")
    first = data.lstrip()[:4096].partition(b"\n")[0]
    if SCHEMA.encode() in first:
        return _run(path, price)
    document: Any = None
    with contextlib.suppress(ValueError):  # what is not JSON is named below
        document = json.loads(data)
    if isinstance(document, dict) and {"phases", "total", "balance"} <= set(document):
        return ("plan", document, *_plan_amounts(document), "")
    if isinstance(document, dict) and "phases" in document and "contradictions" in document:
        return ("reconciliation", document, *_reconciled_amounts(document), "")
    raise InputError(
        f"{shown(str(path))}: neither a plan (TOML, or plan --json), nor a run's ledger ({SCHEMA}), "
        "nor a reconciliation (reconcile --json)"
    )


def _amounts(found: Mapping[str, Any]) -> Amounts:
    return {name: None if found.get(name) is None else point(found[name]) for name in AMOUNTS}


def _plan_amounts(document: Mapping[str, Any]) -> tuple[Amounts, dict[str, Amounts]]:
    phases = {phase: _amounts(one) for phase, one in document["phases"].items()}
    total = _amounts(document["total"])
    return {**total, "utilization_fraction": total["utilization_fraction"] or _mean_utilization(phases)}, phases


def _mean_utilization(phases: Mapping[str, Amounts]) -> float | None:
    """Utilisation of all phases, each by its GPU-time; None where no phase has both."""
    pairs = [(one["utilization_fraction"], one["gpu_hours"]) for one in phases.values()]
    known = [(share, hours) for share, hours in pairs if share is not None and hours]
    hours = sum(hours for _, hours in known)
    return sum(share * own for share, own in known) / hours if hours else None


def _run(path: Path, price: Uncertain | None) -> tuple[str, dict[str, Any], Amounts, dict[str, Amounts], str]:
    reading = read_ledger(path)
    document = summary(reading.entries)
    document["damaged_lines"] = len(reading.damaged)
    usd_per_hour = None if price is None else middle(price)
    phases = {phase: _run_amounts(one, usd_per_hour) for phase, one in document["phases"].items()}
    total = _run_amounts({**document, "flop": _total(phases, "flop")}, usd_per_hour)
    total |= {"tokens": _total(phases, "tokens"), "utilization_fraction": _mean_utilization(phases)}
    return "run", document, total, phases, _began(reading.entries)


def _run_amounts(one: Mapping[str, Any], usd_per_hour: float | None) -> Amounts:
    tokens = one.get("tokens_by_kind") or {}
    counted = max(tokens.values(), default=None)  # kinds overlap: sampled tokens are kept, or trained on
    usd = None if usd_per_hour is None else usd_per_hour * one["gpu_hours"]
    return {**_amounts(one), "tokens": counted, "usd": usd}


def _total(phases: Mapping[str, Amounts], name: str) -> float | None:
    known = [value for one in phases.values() if (value := one[name]) is not None]
    return sum(known) if known else None


def _began(entries: tuple[Entry, ...]) -> str:
    """When the earliest entry with a readable time began."""
    times = []
    for one in entries:
        try:
            begun = datetime.datetime.fromisoformat(one.started)
        except ValueError:
            continue
        times.append(begun if begun.tzinfo else begun.replace(tzinfo=datetime.UTC))
    return min(times).isoformat() if times else ""


def _reconciled_amounts(document: Mapping[str, Any]) -> tuple[Amounts, dict[str, Amounts]]:
    """What really happened, by phase; a phase that was only planned has nothing."""
    phases = {
        phase: _amounts(one["actual"] if isinstance(one.get("actual"), dict) else {})
        for phase, one in document["phases"].items()
    }
    total: Amounts = {name: _total(phases, name) for name in AMOUNTS}
    return {**total, "utilization_fraction": _mean_utilization(phases)}, phases
