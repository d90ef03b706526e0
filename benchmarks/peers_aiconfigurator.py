"""Answers aiconfigurator's questions from a file: run by benchmarks/peers.py with that tool's own interpreter.

PYTHON benchmarks/peers_aiconfigurator.py QUESTIONS.json ANSWERS.json
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import logging
import sys
import time
from pathlib import Path
from typing import Any

#: Measured kernels first; where a kernel was not measured, the tool's own mixture with estimates.
MODES = ("SILICON", "HYBRID")


def answer(question: dict[str, Any], estimate: Any) -> dict[str, Any]:
    """Milliseconds of TPOT and TTFT, or why there is no answer; with the seconds that it took."""
    start, reason = time.perf_counter(), ""
    for mode in MODES:
        try:
            found = estimate(database_mode=mode, **({"mode": "agg"} | question))
        except Exception as error:  # noqa: BLE001 (another tool's refusal of any kind is its answer)
            reason = f"{error.__class__.__name__}: {str(error).splitlines()[0] if str(error) else ''}"[:160]
            continue
        return {
            "tpot_ms": float(found.tpot),
            "ttft_ms": float(found.ttft),
            "output_tokens_per_s_per_gpu": float(found.tokens_per_second_per_gpu),
            "mode": mode,
            "database": str(found.raw.get("version", "")),
            "seconds": time.perf_counter() - start,
        }
    return {"reason": reason, "seconds": time.perf_counter() - start}


def first_answer(questions: list[dict[str, Any]], estimate: Any) -> dict[str, Any]:
    """The first of several wordings of a question that is answered, else the refusal of the first."""
    found: dict[str, Any] = {}
    for question in questions:
        one = answer(question, estimate)
        if "reason" not in one:
            return one | {"asked": question}
        found = found or one | {"asked": question}
    return found


def main() -> None:
    """Answer every question, once; a list is one question in several wordings."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("questions", type=Path)
    parser.add_argument("answers", type=Path)
    given = parser.parse_args()
    logging.disable(logging.CRITICAL)
    with contextlib.redirect_stdout(sys.stderr):
        estimate = importlib.import_module("aiconfigurator.cli.api").cli_estimate
        questions = json.loads(given.questions.read_text("utf-8"))
        answers = [first_answer(one, estimate) if isinstance(one, list) else answer(one, estimate) for one in questions]
    given.answers.write_text(json.dumps(answers), "utf-8")


if __name__ == "__main__":
    main()
