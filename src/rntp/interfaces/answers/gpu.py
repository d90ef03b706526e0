"""What the command ``gpu`` asks of the measurement."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from rntp.interfaces.answers.train import ready


def gpu_answer(output: Path, budget_s: float, told: Callable[[str], None], *, dry: bool) -> dict[str, Any]:
    """Measure, and write the report in both of its forms."""
    ready()
    from rntp.gpu.report import measure_gpu
    from rntp.gpu.table import markdown

    report = measure_gpu(output, dry=dry, budget_s=budget_s, told=told)
    (output / "report.md").write_text(markdown(report), "utf-8")
    return report
