"""Imported by the process that the others are copies of: facts that most questions read are read there, once for all.

Without it the first move of a slider waits until the process that is asked has read them, since the answer that the
page opened with was worked out by another.
"""

from __future__ import annotations

import gc
import logging

from computeledger.interfaces.web.answers import Question, answered

#: Pages whose answers read nearly all that moves on the most visited pages read.
READ_BY = ("life", "serve")


def read_facts() -> None:
    """Answer the defaults of pages, and keep what that has read out of the copies' searches for garbage.

    A page that fails here fails where it is asked, too, and is no reason for the other pages to have no process.
    """
    for name in READ_BY:
        try:
            answered(Question("view", name, ()))
        except Exception:
            logging.getLogger(__name__).exception("%s: not read ahead", name)
    gc.collect()
    gc.freeze()


read_facts()
