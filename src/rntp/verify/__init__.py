"""Verifiers: answers checked by domain, programs run in a sandbox, a pool that loses nothing, and a ledger of its own.

``verify(task, completion)`` is the interface; everything else serves it.
"""

from rntp.verify.engine import Engine, verify
from rntp.verify.limits import Limits
from rntp.verify.task import Task, read_task
from rntp.verify.text import register_scorer
from rntp.verify.verdict import STATUSES, Verdict

__all__ = ["STATUSES", "Engine", "Limits", "Task", "Verdict", "read_task", "register_scorer", "verify"]
