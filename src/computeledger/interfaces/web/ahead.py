"""Answers that are worked out before anybody asks: to the defaults of pages whose answers take long."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection

from computeledger.interfaces.web.answers import OK, Question, Reply
from computeledger.interfaces.web.copies import Context

Answer = Callable[[Question], Reply]
#: As far behind everything else on the machine as a process can stand.
_LAST = 19


class Ahead:
    """One process that answers one question after the other, behind all others, and ends.

    Attributes
    ----------
    replies : dict of Question to Reply
        What it has answered so far.
    """

    def __init__(self, context: Context, questions: Sequence[Question], answer: Answer) -> None:
        self.replies: dict[Question, Reply] = {}
        pipe, theirs = context.Pipe(duplex=False)
        self._process = context.Process(target=_answer_all, args=(theirs, questions, answer), daemon=True)
        self._process.start()
        theirs.close()
        self._collecting = threading.Thread(target=self._collect, args=(pipe,), daemon=True)
        self._collecting.start()

    def stop(self) -> None:
        """End the process, wherever it is."""
        self._process.kill()

    def wait(self) -> None:
        """Wait until everything is answered."""
        self._collecting.join()

    def _collect(self, pipe: Connection) -> None:
        try:
            while True:
                question, reply = pipe.recv()
                self.replies[question] = reply
        except (EOFError, OSError):  # all is answered, or the process was ended
            pipe.close()


def _answer_all(pipe: Connection, questions: Sequence[Question], answer: Answer) -> None:
    """Answer questions one by one; what cannot be answered is left to whoever asks it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the server's
    if hasattr(os, "nice"):
        os.nice(_LAST)
    try:
        for question in questions:
            reply = answer(question)
            if reply.status == OK:
                pipe.send((question, reply))
    except OSError:  # the server has gone
        return
