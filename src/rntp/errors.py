"""Errors of the trainer and its verifiers, beside the caller's own mistakes (``computeledger.errors.InputError``).

::

    ComputeLedgerError
    ├── SandboxError            the machine cannot run a job safely; no verdict can be given
    │   └── WorkerDiedError     a worker ended while it had a task
    └── TrainingError           a run cannot go on; the message names the last good checkpoint
"""

from __future__ import annotations

from computeledger.errors import ComputeLedgerError


class SandboxError(ComputeLedgerError):
    """The machine cannot run a job safely, or failed while it did; never a verdict on an answer."""


class WorkerDiedError(SandboxError):
    """A worker process ended while it had a task."""


class TrainingError(ComputeLedgerError):
    """A run cannot go on: a loss that is no number, a checkpoint that cannot be written; names the last good one."""
