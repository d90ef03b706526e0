"""Processes that start as copies of one that has loaded the app and read its facts. It loads neither itself."""

from __future__ import annotations

import multiprocessing
import sys
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext, SpawnContext

from computeledger.questions.executors import deaf_to_interrupts

Context = ForkServerContext | SpawnContext
#: What the process that others are copies of imports; the second reads the facts that most questions read.
_LOADED = ["computeledger.interfaces.web.engines", "computeledger.interfaces.web.loaded"]


def copies_of_a_loaded_process() -> Context:
    """What starts such processes; whole ones where the system cannot copy. Whoever calls first begins to load that one.

    The first copy is there once it has loaded; a server asks for it beside its other work.
    """
    if sys.platform == "win32":
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_LOADED)
    with deaf_to_interrupts():  # what starts here inherits it, so that Ctrl-C does not strike in its imports
        forkserver.ensure_running()
    return context
