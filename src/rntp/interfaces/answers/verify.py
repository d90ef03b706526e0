"""What the commands of ``verify`` ask of the engine."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from computeledger.errors import InputError, nearest, shown
from computeledger.files import MOST_BYTES, bounded_lines, open_user_file
from rntp.errors import SandboxError
from rntp.verify.cgroup import find_hierarchy
from rntp.verify.engine import ISOLATIONS, has_sandbox
from rntp.verify.environments import load_environments, mixture
from rntp.verify.pool import AHEAD, LocalPool, Plan, executor_for
from rntp.verify.run import Files, run_files
from rntp.verify.sandbox import Job, Sandbox
from rntp.verify.task import load_tasks


@dataclass(frozen=True)
class Settings:
    """What a run is asked for."""

    tasks: Path
    completions: Path
    results: Path | None
    isolation: str
    ordered: bool

    def count(self) -> int:
        """How many verdicts are to come: completions, and tasks without one count when they are met [-]."""
        with open_user_file(self.completions) as stream:
            return sum(1 for _, line in bounded_lines(stream, MOST_BYTES) if line is None or line.strip())


def run_answer(
    settings: Settings,
    executor: dict[str, Any],
    report: Callable[[dict[str, Any]], None],
    in_hand: int | None,
    rollouts_per_s: float | None,
    arm: Callable[[Any], None],
) -> dict[str, Any]:
    """Run the files through an executor and give the summary."""
    if settings.isolation not in ISOLATIONS:
        raise InputError(f"--isolation {shown(settings.isolation)}: {nearest(settings.isolation, ISOLATIONS)}")
    if settings.results is not None:
        _refuse_results(settings)
    tasks = load_tasks(settings.tasks)
    sandboxed = {task.domain for task in tasks.values()} & {"code", "puzzle"}
    if sandboxed and executor["cluster"] is None and not has_sandbox():
        raise InputError(
            f"{' and '.join(sorted(sandboxed))} need bubblewrap, and nothing is run without it "
            "(Debian: apt-get install bubblewrap)"
        )
    with executor_for(**executor) as workers:
        plan = Plan(settings.isolation, in_hand or _in_hand(workers), settings.ordered)
        arm(plan.stop)
        out = run_files(Files(tasks, settings.completions, settings.results), workers, plan, report, rollouts_per_s)
    return {**out, "isolation": settings.isolation, "sandbox": _sandbox_words(executor["cluster"])}


def _in_hand(workers: Any) -> int:
    """Enough that no worker waits; as many again for the order to be kept."""
    return 2 * AHEAD * workers.workers if isinstance(workers, LocalPool) else 256


def _refuse_results(settings: Settings) -> None:
    results = settings.results
    if results is None or not results.parent.is_dir() or results.is_dir():
        raise InputError(f"--out {shown(str(results))}: is no file in a folder that exists")
    for read in (settings.tasks, settings.completions):
        if results.exists() and read.exists() and results.samefile(read):
            raise InputError(f"--out {shown(str(results))}: is read by this run and not written over")


def _sandbox_words(cluster: str | None) -> str:
    """Where untrusted text was handled."""
    if cluster is not None:
        return "as on the workers of the cluster"
    if not has_sandbox():
        return "none: bubblewrap is missing; mathematics was compared in plain processes"
    hierarchy = find_hierarchy()
    return "bubblewrap, " + (f"control groups v{hierarchy.version}" if hierarchy else "process limits only")


def mixed(path: Path, count: int, seed: int) -> Iterator[dict[str, Any]]:
    """Documents of the tasks that a mixture draws."""
    for task in itertools.islice(mixture(load_environments(path), seed), count):
        limits = asdict(task.limits)
        yield {"id": task.id, "domain": task.domain, "environment": task.environment, **task.spec, "limits": limits}


def machine() -> dict[str, Any]:
    """What this machine offers, tried."""
    hierarchy = find_hierarchy()
    out: dict[str, Any] = {
        "bubblewrap": shutil.which("bwrap"),
        "cgroup_version": hierarchy.version if hierarchy else None,
        "compiler": shutil.which("g++"),
    }
    try:
        with Sandbox() as sandbox:
            outcome = sandbox.run(Job(b"print(6 * 7)"))
        out["sandbox"] = "works" if outcome.stdout == b"42\n" else f"answers {outcome.stdout!r}"
    except SandboxError as error:
        out["sandbox"] = str(error)
    return out
