"""What a training command says when it is ended from outside, or when memory runs out."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest

from rntp.interfaces.answers import train as answers
from rntp.interfaces.cli import main

CPU = (
    "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate "
    "40000000000 bytes. Error code 12 (Cannot allocate memory)"
)
GPU = "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.19 GiB"


def ended(does: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """Exit code and standard error of a training that does this in the middle."""
    monkeypatch.setattr(answers, "train_answer", lambda *_given, **_named: does())
    with pytest.raises(SystemExit) as stopped:
        main(["train", "config.toml"])
    printed = capsys.readouterr()
    assert not printed.out
    return int(stopped.value.code or 0), printed.err


@pytest.mark.parametrize(
    ("number", "code", "how"), [(signal.SIGTERM, 143, "ended by SIGTERM"), (signal.SIGINT, 130, "stopped")]
)
def test_a_signal_is_answered_in_one_line(
    number: signal.Signals, code: int, how: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = signal.getsignal(signal.SIGTERM)
    own = signal.signal(signal.SIGINT, signal.default_int_handler)  # jobs of a shell in the background ignore it
    found = ended(lambda: signal.raise_signal(number), monkeypatch, capsys)
    signal.signal(signal.SIGINT, own)
    assert found == (code, f"rntp: {how}; the same command goes on from the last checkpoint\n")
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_process_forked_from_the_run_ends_without_a_word(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fork() -> None:
        child = os.fork()
        if not child:
            os.kill(os.getpid(), signal.SIGTERM)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGTERM
        signal.raise_signal(signal.SIGTERM)

    assert ended(fork, monkeypatch, capsys)[1].count("\n") == 1


@pytest.mark.parametrize(
    ("error", "asked"),
    [(RuntimeError(CPU), ": 40000000000 bytes more"), (RuntimeError(GPU), ": 2.00 GiB more"), (MemoryError(), "; a")],
)
def test_memory_that_runs_out_is_one_line(
    error: Exception, asked: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails() -> None:
        raise error

    code, said = ended(fails, monkeypatch, capsys)
    assert code == 1 and said.startswith(f"rntp: out of memory{asked}") and said.count("\n") == 1
    assert "rl.micro_batch" in said


def test_another_error_of_the_engine_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails() -> None:
        raise RuntimeError("a shape that does not match")

    monkeypatch.setattr(answers, "train_answer", lambda *_given, **_named: fails())
    with pytest.raises(RuntimeError, match="does not match"):
        main(["train", "config.toml"])
