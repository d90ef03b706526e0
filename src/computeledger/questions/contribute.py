"""The question of ``computeledger contribute``: a benchmark's result, or a training log, as rows of measurements."""

from __future__ import annotations

from dataclasses import dataclass

from computeledger.fields import Asked, asked, shared
from computeledger.workloads.questions.serve import ServeQuestion
from computeledger.workloads.questions.setup import Sampled


@dataclass(frozen=True, kw_only=True)
class ContributeQuestion(Asked):
    """A measurement with its origin: checked, predicted, and written as a table for a pull request."""

    result: str = asked("text", "Result of a benchmark (vLLM, SGLang, GenAI-Perf, AIPerf, GuideLLM, trtllm-bench, "
                        "llama-bench), or a training log with its steps.", ..., metavar="RESULT")  # fmt: skip
    model: str = shared(ServeQuestion, "model")
    system: str = shared(ServeQuestion, "system")
    layout: str | None = asked(
        "text", "Layout of one replica, such as tp8.", metavar="tp4-dp2-ep8", blank="none: a log states its own"
    )
    backend: str | None = asked(
        "text", "Engine that was measured, such as vllm.", metavar="ENGINE", blank="none: a log's tool"
    )
    backend_version: str | None = asked("text", "Its version, such as 0.11.0.", metavar="VERSION", blank="not stated")
    precision: str | None = shared(ServeQuestion, "precision")
    kv_precision: str = shared(ServeQuestion, "kv_precision")
    source: str = asked("text", "Who measured, as it should be credited.", ..., metavar="NAME")
    url: str = asked("text", "Where the result stands, at a fixed version.", ..., metavar="https://...")
    date: str = asked("text", "Month of the measurement, such as 2026-11.", ..., metavar="YYYY-MM")
    licence: str = asked(
        "text", "Licence of the result by its SPDX id, such as CC-BY-4.0; any other as LicenseRef-NAME.", ...,
        metavar="ID",
    )  # fmt: skip
    note: str = asked("text", "How the server was started and how the load was made.", "", metavar="TEXT")
    out: str = asked("text", "File to write the rows to.", "measurement.csv", metavar="FILE.csv")
    samples: int = shared(Sampled, "samples", default=512)
    seed: int = shared(Sampled, "seed")
