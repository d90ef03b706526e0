"""From files to records of the books: a plan, a plan's answer, a run's ledger, a reconciliation; told by content."""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from computeledger.actuals.run_ledger import SCHEMA, Entry, read_ledger
from computeledger.actuals.run_summary import summary
from computeledger.errors import InputError, shown
from computeledger.files import open_user_file, read_json
from computeledger.stores.books.store import AMOUNTS, Record

Amounts = dict[str, float | None]

#: What is hashed of a file at once.
COPIED_BYTES = 1_000_000

_KINDS = f"needed is a plan (TOML, or plan --json), a run's ledger ({SCHEMA}), or a reconciliation (reconcile --json)"


def read_record(path: Path, price: float | None, name: str | None, note: str) -> Record:
    """What a file holds, as one record."""
    with open_user_file(path) as stream:
        begin = stream.read(4096)
        digest = hashlib.sha256(begin)
        while piece := stream.read(COPIED_BYTES):
            digest.update(piece)
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    kind, document, amounts, phases, happened = _contents(path, begin, price)
    own = document.get("title") or ", ".join(document.get("runs", ())) or path.stem
    return Record(kind, name or str(own), happened or now, amounts, phases, document, digest.hexdigest(), note)


def _contents(
    path: Path, begin: bytes, price: float | None
) -> tuple[str, dict[str, Any], Amounts, dict[str, Amounts], str]:
    """Kind, document, amounts, amounts by phase, and when it happened."""
    if path.suffix == ".toml":
        document = _plan_file(path)
        return ("plan", document, *_plan_amounts(document), "")
    if SCHEMA.encode() in begin.lstrip().partition(b"\n")[0]:
        return _run(path, price)
    try:
        found = read_json(path)
    except InputError as error:
        raise InputError(f"{error}; {_KINDS}") from None
    keys = set(found) if isinstance(found, dict) else set()
    try:
        if {"phases", "total", "balance"} <= keys:
            return ("plan", found, *_plan_amounts(found), "")
        if {"phases", "contradictions"} <= keys:
            return ("reconciliation", found, *_reconciled_amounts(found), "")
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError):
        raise InputError(f"{shown(str(path))}: a damaged answer; {_KINDS}") from None
    raise InputError(f"{shown(str(path))}: {_KINDS}")


def _plan_file(path: Path) -> dict[str, Any]:
    """The answer of ``plan``; what it needs loads only here, so that runs are added without it."""
    from computeledger.economics.plan.ledger import estimate_ledger
    from computeledger.economics.plan.read import load_plan
    from computeledger.questions.answers.plan import plan_document

    return plan_document(estimate_ledger(load_plan(str(path)), 4096, 0))


def _amounts(found: Mapping[str, Any]) -> Amounts:
    """Medians of what a document says; None where it says nothing."""
    medians = {name: one["p50"] if isinstance(one := found.get(name), Mapping) else one for name in AMOUNTS}
    return {name: None if value is None else float(value) for name, value in medians.items()}


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


def _run(path: Path, price: float | None) -> tuple[str, dict[str, Any], Amounts, dict[str, Amounts], str]:
    reading = read_ledger(path)
    document = summary(reading.entries)
    document["damaged_lines"] = len(reading.damaged)
    phases = {phase: _run_amounts(one, price) for phase, one in document["phases"].items()}
    total = _run_amounts({**document, "flop": _total(phases, "flop")}, price)
    total |= {"tokens": _total(phases, "tokens"), "utilization_fraction": _mean_utilization(phases)}
    return "run", document, total, phases, _began(reading.entries)


def _run_amounts(one: Mapping[str, Any], price: float | None) -> Amounts:
    tokens = one.get("tokens_by_kind") or {}
    counted = max(tokens.values(), default=None)  # kinds overlap: sampled tokens are kept, or trained on
    usd = None if price is None else price * one["gpu_hours"]
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
