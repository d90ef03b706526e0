"""The question of ``computeledger accuracy``: how far off predictions are of what they were not fitted on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from computeledger.errors import InputError
from computeledger.fields import Asked, asked
from computeledger.physics.calibration.serving import DEFAULT_TUNING, TUNINGS
from computeledger.validation.accuracy.table import LEFT_OUT, LOAD_KINDS, WORKLOADS

#: Columns that errors are told by.
KEYS = ("source", "accelerator", "engine", "family", "load", "statistic", "class", "tuning", "model")


def _filter(help_: str, label: str, **declared: Any) -> Any:
    return asked("text", help_, (), is_list=True, metavar="A,B", label=label, group="Which", blank="every", **declared)


@dataclass(frozen=True, kw_only=True)
class AccuracyQuestion(Asked):
    """Which measured figures, and how to slice the errors of their predictions."""

    workload: str = asked(
        "text", "What was predicted.", "serving", choices=WORKLOADS, label="Workload", group="Which",
        metavar="|".join(WORKLOADS),
    )  # fmt: skip
    tuning: str = asked(
        "text", "Of serving: whose deployments, other people's or those of the public recipes.", DEFAULT_TUNING,
        choices=TUNINGS, label="Tuning", group="Which", metavar="|".join(TUNINGS),
    )  # fmt: skip
    left_out: str | None = asked(
        "text", "What was left out of the fit.", choices=LEFT_OUT, label="Left out", group="Which",
        metavar="|".join(LEFT_OUT), blank="as promised",
    )  # fmt: skip
    source: tuple[str, ...] = _filter("Who measured.", "Source")
    accelerator: tuple[str, ...] = _filter("Chips, by id.", "Accelerator")
    engine: tuple[str, ...] = _filter("Engines.", "Engine")
    family: tuple[str, ...] = _filter("Series of models, such as Qwen3.", "Model family")
    model: tuple[str, ...] = _filter("Models, by id.", "Model")
    load: tuple[str, ...] = _filter(
        "Load: clients that hold requests in flight, one burst, one static batch.", "Load", choices=LOAD_KINDS
    )
    statistic: tuple[str, ...] = _filter("What the source states of a time: mean, median.", "Statistic")
    quantity: tuple[str, ...] = _filter("Quantities, such as tpot,ttft.", "Quantity")
    data: str | None = asked(
        "text", "Predict anew what other constants or tables have changed, from this folder of measured tables.",
        metavar="FOLDER", blank="the published table",
    )  # fmt: skip
    write: str | None = asked(
        "text",
        "With --data: write the table into this folder.",
        metavar="FOLDER",
    )
    by: tuple[str, ...] = asked(
        "text", "Columns to slice by.", ("engine", "accelerator", "family", "load", "statistic", "source", "class"),
        choices=KEYS, is_list=True, metavar="COLS",
    )  # fmt: skip

    def check(self) -> None:
        """Refuse a folder to read or to write without the other."""
        if (self.write is None) != (self.data is None):
            given, lacking = ("--write", "--data") if self.data is None else ("--data", "--write")
            raise InputError(f"{given}: needs {lacking} beside it; measured tables are read, the table is written")
