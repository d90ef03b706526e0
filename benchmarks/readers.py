"""Time and memory of reading a log of 1 GB: a real excerpt's lines, repeated with running steps.

Run: ``python benchmarks/readers.py [--megabytes 1000] [--tool verl|megatron|all]``. Each reading is a process of its
own, so that the memory it prints is its own.
"""

from __future__ import annotations

import argparse
import datetime
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from computeledger.actuals.readers.all_tools import read_actuals
from computeledger.actuals.readers.tally import Hints, Tally
from computeledger.units import MEGA
from tests.actuals import samples


def megatron_lines() -> Iterator[str]:
    """Arguments, and then nothing but iterations, with their stamps."""
    yield samples.megatron_head()
    step, now = 0, datetime.datetime(2026, 5, 27, tzinfo=datetime.UTC)
    while True:
        for _, _, elapsed_ms in samples.MEGATRON:
            step += 1
            now += datetime.timedelta(milliseconds=elapsed_ms)
            yield f" [{now:%Y-%m-%d %H:%M:%S}]{samples.megatron_line(step, elapsed_ms)}\n"


def verl_lines() -> Iterator[str]:
    """The console's configuration, and then its steps with the lines between them."""
    text = samples.verl_console()
    head, _, rest = text.partition("(main_task pid=13624) epoch")
    yield head
    step = 0
    while True:
        for line in rest.splitlines(keepends=True):
            if "step:" in line:
                step += 1
                before, _, after = line.partition("step:")
                yield f"{before}step:{step} {after.partition(' ')[2]}"
            else:
                yield line


MAKERS = {"megatron": megatron_lines, "verl": verl_lines}


def write(path: Path, tool: str, size_bytes: float) -> None:
    """Write a log of that size."""
    written = 0
    with path.open("w") as file:
        for line in MAKERS[tool]():
            file.write(line)
            written += len(line)
            if written >= size_bytes:
                return


def read(path: Path) -> None:
    """Read a log and print what it took."""
    began, busy = time.perf_counter(), time.process_time()
    tally, count, held_s = Tally(), 0, 0.0
    for entry in read_actuals(path, Hints(), tally):
        count += 1
        held_s += entry.device_s
    took_s, busy_s = time.perf_counter() - began, time.process_time() - busy
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / MEGA
    assert count and held_s and not tally.damaged, tally
    print(
        f"{took_s:.1f} s ({busy_s:.1f} s of processor), {count:,} entries, "
        f"{path.stat().st_size / MEGA / took_s:.0f} MB/s, peak {peak:.0f} MB"
    )


def main() -> None:
    """Make the logs and read each in its own process."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=float, default=1000.0)
    parser.add_argument("--tool", choices=["all", *MAKERS], default="all")
    parser.add_argument("--read", type=Path)
    given = parser.parse_args()
    if given.read:
        read(given.read)
        return
    with tempfile.TemporaryDirectory() as folder:
        for tool in MAKERS if given.tool == "all" else [given.tool]:
            path = Path(folder) / tool
            write(path, tool, given.megabytes * MEGA)
            print(f"{tool}: ", end="", flush=True)
            subprocess.run([sys.executable, __file__, "--read", str(path)], check=True)  # noqa: S603 (this file)
            path.unlink()


if __name__ == "__main__":
    main()
