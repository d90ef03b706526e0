"""The question of ``computeledger fit``: what the measured tables say of a shipped calibration."""

from __future__ import annotations

from dataclasses import dataclass

from computeledger.errors import InputError, nearest
from computeledger.fields import Asked, asked, shared
from computeledger.questions.sweep import SweepQuestion

#: Calibrations that a fit derives.
FITS = ("serving", "training", "rl", "neighbours", "local", "anchors")


@dataclass(frozen=True, kw_only=True)
class FitQuestion(Asked):
    """Which calibration to derive, and from which tables."""

    what: str = asked("text", "Which calibration.", ..., example="serving")
    data: str = asked("text", "Folder of measured tables.", ..., metavar="FOLDER")
    write: str | None = asked("text", "Write the calibration to this file.", metavar="FILE")
    quick: bool = asked("switch", "Without cross-validation: constants only, nothing to write.", False)

    workers: int | None = shared(SweepQuestion, "workers", blank="this one")
    cluster: str | None = shared(SweepQuestion, "cluster")

    def check(self) -> None:
        """Refuse an unknown calibration, and one written without the intervals that cross-validation gives."""
        if self.what not in FITS:
            raise InputError(f"fit {self.what!r}: {nearest(self.what, FITS)}")
        if self.quick and self.write is not None:
            raise InputError(
                "--quick skips the cross-validation that the intervals come from: leave out --quick or --write"
            )
        if self.workers is not None and self.cluster is not None:
            raise InputError("--workers and --cluster exclude each other: a cluster has its own workers")
