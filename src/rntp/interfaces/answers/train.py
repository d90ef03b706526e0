"""What the command ``train`` asks of the trainer."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from computeledger.errors import InputError
from rntp.recipe_file import read_recipe

#: Told the stage, its step, its steps, and figures of the step.
Report = Callable[[str, int, int, Mapping[str, float]], None]
#: What the extra ``train`` brings, as far as every run needs it.
_PACKAGES = ("torch", "transformers", "trl", "accelerate", "datasets", "tokenizers")


def train_answer(
    config: Path, settings: Sequence[str], report: Report, *, fresh: bool, longer: bool = False
) -> dict[str, Any] | None:
    """Carry a recipe out; None in the processes that are not the first."""
    recipe = read_recipe(config, settings)
    ready()
    from rntp.run import run

    summary = run(recipe, fresh=fresh, longer=longer, report=report)
    return summary if int(os.environ.get("RANK", "0")) == 0 else None


@dataclass(frozen=True)
class Asked:
    """What an experiment is asked for."""

    config: Path
    settings: Sequence[str]
    places: int
    kinds: tuple[str, ...]
    judge: str | None


def experiment_answer(asked: Asked, report: Report, *, fresh: bool) -> dict[str, Any]:
    """Carry an experiment out, each of its two processes on a share of the cores."""
    recipe = read_recipe(asked.config, asked.settings)
    ready()
    from rntp.experiment import Plan, experiment

    given = int(os.environ.get("OMP_NUM_THREADS", "0"))
    share = given or max(1, len(os.sched_getaffinity(0)) // 2)
    judge = Path(asked.judge) if asked.judge else None
    return experiment(recipe, Plan(asked.places, judge, asked.kinds, share), report, fresh=fresh)


def study_answer(path: Path, jobs: int | None, told: Callable[[str, int, int], None]) -> dict[str, Any]:
    """Carry a study out, its parts side by side on the cores; of results that are there, give those."""
    if path.suffix == ".json":
        from rntp.results import read_results

        return read_results(path)
    ready()
    from rntp.study import carry_out, read_study

    cores = len(os.sched_getaffinity(0))
    share = int(os.environ.get("OMP_NUM_THREADS", "0")) or max(1, cores // (jobs or cores))
    return carry_out(read_study(path), told, jobs=jobs or max(1, cores // share), thread_count=share)


def transfer_answer(path: Path, seeds: Sequence[int], told: Callable[[str, int, int], None]) -> dict[str, Any]:
    """Train on text of one kind and measure on the others; of results that are there, give those."""
    if path.suffix == ".json":
        from rntp.results import TRANSFER_SCHEMA, read_results

        return read_results(path, TRANSFER_SCHEMA)
    ready()
    from rntp.transfer import carry_out, read_transfer

    share = int(os.environ.get("OMP_NUM_THREADS", "0")) or len(os.sched_getaffinity(0))
    return carry_out(read_transfer(path), told, seeds, share)


def mixture_answer(path: Path, told: Callable[[str], None]) -> dict[str, Any]:
    """Search the shares of what RL goes over; of results that are there, give those."""
    if path.suffix == ".json":
        from rntp.results import MIXTURE_SCHEMA, read_results

        return read_results(path, MIXTURE_SCHEMA)
    ready()
    from rntp.mixture_search import carry_out, read_search

    share = int(os.environ.get("OMP_NUM_THREADS", "0")) or len(os.sched_getaffinity(0))
    return carry_out(read_search(path), told, share)


def ready() -> None:
    """Refuse to begin without the packages, and keep their chatter from the terminal."""
    missing = [name for name in _PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        raise InputError(f"training needs {', '.join(missing)}: pip install 'computeledger[train,verify]'")
    from rntp.quiet import hush

    hush()
