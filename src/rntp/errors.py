"""Errors of the trainer and its verifiers, beside the caller's own mistakes (``computeledger.errors.InputError``).

::

    ComputeLedgerError
    ├── TrainingError           a run that cannot go on; its last checkpoint is whole
    ├── EpisodeError            an environment's machine failed; the episode has no reward
    └── SandboxError            the machine cannot run a job safely; no verdict can be given
        └── WorkerDiedError     a worker ended while it had a task
"""

from __future__ import annotations

from computeledger.errors import ComputeLedgerError


class SandboxError(ComputeLedgerError):
    """The machine cannot run a job safely, or failed while it did; never a verdict on an answer."""


class WorkerDiedError(SandboxError):
    """A worker process ended while it had a task."""


class TrainingError(ComputeLedgerError):
    """A run that cannot go on: no room on the disk, or a loss that is no number; its last checkpoint is whole."""


class EpisodeError(ComputeLedgerError):
    """The machine of an environment failed, or what it asks over a network: the episode has no reward."""
