"""``trainer_state.json`` of the Hugging Face Trainer and of TRL: times and tokens of the log history.

A record is read by itself, so that a file that was cut still tells what stands before the cut. TRL states
``step_time``; a Trainer only the runtime of the whole, in its last record, which is shared evenly over the steps.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from computeledger.actuals.readers.steps import Line, placed
from computeledger.actuals.readers.tally import Hints, Tally, amount, known_devices
from computeledger.actuals.run_ledger import Entry
from computeledger.errors import InputError
from computeledger.files import MOST_LINE_BYTES, MOST_ROWS, parse_json

TOOL = "trainer_state.json"
MARK = b'"log_history"'

#: What a record's steps are kept under: its times are those of one of them, in the mean.
STEPS_OF_RECORD = "steps_of_record"
_RECORD = re.compile(r"\{[^{}]*\}")


def entries(lines: Iterable[tuple[int, str]], hints: Hints, tally: Tally, called: str = TOOL) -> Iterator[Entry]:
    """Read the log history, of this file or of another that keeps its records."""
    devices = known_devices(None, hints, called)
    records = list(islice(_records(lines, tally), MOST_ROWS + 1))
    if len(records) > MOST_ROWS:
        raise InputError(f"{called} holds more than {MOST_ROWS:,} records")
    steps = [record for record in records if "loss" in record[1] or "reward" in record[1]]
    runtime_s = next((amount(str(one["train_runtime"])) for _, one in records if "train_runtime" in one), None)
    last = max((int(one["step"]) for _, one in records), default=0)
    shared_s = runtime_s / last if runtime_s and last else None
    if steps and shared_s is None and not any("step_time" in one for _, one in steps):
        raise InputError(
            f"{called} holds no times: neither step_time (TRL logs it) nor train_runtime (the Trainer's last "
            "record); save the state after training ends"
        )
    tokens = 0.0
    by_line = dict(records)
    for one in placed((_line(number, record) for number, record in steps), tally):
        record = by_line[one.line.number]
        own_s = amount(str(record["step_time"])) if "step_time" in record else shared_s
        if own_s is None:
            tally.damage("a time that is no number", one.line.number)
            continue
        seen = amount(str(record.get("num_tokens", record.get("num_input_tokens_seen", "")))) or 0.0
        trained, tokens = max(seen - tokens, 0.0), max(seen, tokens)
        tally.observe(STEPS_OF_RECORD, one.n_steps)
        counts = _tokens(record, one.n_steps, trained, (hints, tally))
        workload = "rl" if "reward" in record else "pretraining"
        yield Entry(
            hints.run, workload, "step", own_s * one.n_steps, devices, one.line.step, one.attempt, counts,
        )  # fmt: skip
    for _, record in records:
        if evaluated_s := amount(str(record.get("eval_runtime", ""))):
            workload = "rl" if any("reward" in one for _, one in steps) else "pretraining"
            yield Entry(hints.run, workload, "evaluation", evaluated_s, devices, int(record["step"]))


def _records(lines: Iterable[tuple[int, str]], tally: Tally) -> Iterator[tuple[int, dict[str, Any]]]:
    """Records of the history with the line each ends on, or is on."""
    held: list[str] = []
    number = place = held_characters = 0
    for number, text in lines:
        held.append(text)
        held_characters += len(text)
        if "}" not in text and held_characters < MOST_LINE_BYTES:
            continue
        joined = "\n".join(held)
        for found in _RECORD.finditer(joined):
            place = max(number, place + 1)
            if '"step"' in found[0]:
                record = _record(found[0])
                if record is None:
                    tally.damage("a record that is damaged", number)
                else:
                    yield place, record
        rest = joined[joined.rfind("}") + 1 :]
        begin = rest.rfind("{")  # a record that is still open; what stands before it belongs to none
        held = [] if begin < 0 or len(rest) - begin > MOST_LINE_BYTES else [rest[begin:]]
        held_characters = sum(map(len, held))
    if held and '"step"' in "\n".join(held) and _is_open("\n".join(held)):
        tally.damage("cut off within a record", number)


def _is_open(text: str) -> bool:
    return text.rfind("{") > text.rfind("}")


def _record(text: str) -> dict[str, Any] | None:
    try:
        record = parse_json(text, "")
    except InputError:
        return None
    step = record.get("step")
    return record if isinstance(step, int) and not isinstance(step, bool) and step >= 0 else None


def _line(number: int, record: Mapping[str, Any]) -> Line:
    return Line(number, int(record["step"]), "", json.dumps(record, sort_keys=True), None, ())


def _tokens(record: Mapping[str, Any], n_steps: int, trained: float, known: tuple[Hints, Tally]) -> dict[str, float]:
    """Tokens of the steps that a record stands for."""
    hints, tally = known
    counts = {"trained": trained} if trained else {}
    length = amount(str(record.get("completions/mean_length", record.get("completion_length", ""))))
    if length:
        tally.state(length, 0.0, 0.0, 0.0)
    if length and hints.rollouts_per_step:
        counts = {"sampled": length * hints.rollouts_per_step * n_steps, **counts}
    return counts
