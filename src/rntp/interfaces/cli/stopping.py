"""What a training command says when it is stopped."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import click


class _Terminated(KeyboardInterrupt):
    """SIGTERM, as a scheduler or a service manager sends it: it ends a run as Ctrl-C does."""


@contextmanager
def goes_on() -> Iterator[None]:
    """Say in one line, after Ctrl-C or SIGTERM, that the same command goes on; exit codes 130 and 143."""
    here = os.getpid()

    def end(number: int, _frame: FrameType | None) -> None:
        signal.signal(number, signal.SIG_DFL)  # a second one ends at once
        if os.getpid() != here:  # a process forked from this one says nothing
            os.kill(os.getpid(), number)
        raise _Terminated

    can_listen = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGTERM, end) if can_listen else None
    try:
        yield
    except KeyboardInterrupt as error:
        is_terminated = isinstance(error, _Terminated)
        how = "ended by SIGTERM" if is_terminated else "stopped"
        click.echo(f"rntp: {how}; the same command goes on from the last checkpoint", err=True)
        raise click.exceptions.Exit(143 if is_terminated else 130) from None
    finally:
        if can_listen:
            signal.signal(signal.SIGTERM, before)
