"""Answers to the tasks of a recipe are scored: by the language model that is their judge, else in worker processes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

import torch

from computeledger.actuals.recording.work import Work
from computeledger.errors import InputError, shown
from rntp.judges.items import Item, Judgement, ModelJudge
from rntp.judges.local import LocalJudge
from rntp.judges.served import ServedJudge
from rntp.recipe import DOMAIN, EnvironmentSpec, JudgeSpec, Recipe
from rntp.verify.pool import LocalPool, Plan, stream
from rntp.verify.task import Judge, Task, load_tasks
from rntp.verify.text import scorer_of

Pairs = Sequence[tuple[Task, str]]


def judge_of(spec: JudgeSpec, recipe: Recipe, device: torch.device | str = "cpu") -> ModelJudge:
    """Make a judge ready; nothing is sent before it is asked.

    Examples
    --------
    >>> judge_of(JudgeSpec("nowhere"), Recipe())
    Traceback (most recent call last):
    computeledger.errors.InputError: judge 'nowhere': no folder with a config.json, beside the recipe or in ...
    """
    if spec.is_served:
        return ServedJudge(spec)
    return LocalJudge(spec, recipe.folder, device, "bfloat16" if recipe.rl.precision == "bfloat16" else "float32")


def item_of(task: Task, answer: str) -> Item:
    """What a judge is given of a task and an answer to it.

    Examples
    --------
    >>> item_of(Task("1", "text", {"answer": "hull"}, question="Name a port."), "hull it is").reference
    'hull'
    """
    known = task.spec.get("answer", "")
    return Item(task.question, answer, known if isinstance(known, str) else str(known))


class Tally:
    """What became of the answers of an environment since it was last read.

    ``answers`` were to be judged by a language model: ``no_verdicts`` of them have none, and about ``failures`` of them
    it could not be asked. ``audited`` answers have an ``audit_sum`` of scores.
    """

    def __init__(self) -> None:
        self.answers = self.no_verdicts = self.failures = self.audited = 0
        self.audit_sum = 0.0


class Checks:
    """Scores answers.

    Parameters
    ----------
    recipe : Recipe
        Whose environments name the judges.
    names : iterable of str
        Environments that are asked about; the judges of others are not loaded.
    device : torch.device or str
        Where a local judge is held.
    processes : int
        Processes that share this machine's processors [-].

    Examples
    --------
    >>> with Checks(Recipe(), ()) as checks:
    ...     checks.scores([(Task("1", "text", {"answer": " fox"}), " fox")])
    [1.0]
    """

    def __init__(
        self, recipe: Recipe, names: Iterable[str], device: torch.device | str = "cpu", processes: int = 1
    ) -> None:
        wanted = [one for one in recipe.environments if one.name in set(names)]
        self._specs = {one.name: one.judge for one in wanted if isinstance(one.judge, JudgeSpec)}
        self._judges = {name: judge_of(spec, recipe, device) for name, spec in self._specs.items()}
        self._audits = {one.name: audit_of(one, recipe.folder) for one in wanted if one.audit}
        self.tallies = {name: Tally() for name in dict.fromkeys([*self._judges, *self._audits])}
        self._workers = max(1, len(os.sched_getaffinity(0)) // processes)
        self._pool: LocalPool | None = None

    def scores(self, pairs: Pairs) -> list[float | None]:
        """Score answers; None where the machine failed, or a judge gave no verdict and the recipe states no reward."""
        out: list[float | None] = [None] * len(pairs)
        for name, judge in self._judges.items():
            places = [place for place, (task, _) in enumerate(pairs) if task.environment == name]
            items = [item_of(*pairs[place]) for place in places]
            different = list(dict.fromkeys(items))  # what a group says alike is asked about once
            found = dict(zip(different, judge.judgements(different), strict=True)) if items else {}
            for place, item in zip(places, items, strict=True):
                out[place] = self._reward(name, found[item])
        others = [place for place, (task, _) in enumerate(pairs) if task.environment not in self._judges]
        for place, score in zip(others, self._verified([pairs[place] for place in others]), strict=True):
            out[place] = score
        return out

    def _reward(self, name: str, found: Judgement) -> float | None:
        """What an answer earns; what became of it is counted."""
        tally = self.tallies[name]
        tally.answers += 1
        if found.score is not None:
            return found.score
        tally.failures += found.is_failed
        tally.no_verdicts += not found.is_failed
        return None if found.is_failed else self._specs[name].no_verdict

    def audit(self, pairs: Pairs) -> None:
        """Score answers by what their environments name for an audit; the scores are counted and earn nothing."""
        asked = [
            (replace(task, judge=self._audits[task.environment]), answer)
            for task, answer in pairs
            if task.environment in self._audits
        ]
        for (task, _), score in zip(asked, self._verified(asked), strict=True):
            if score is not None:
                self.tallies[task.environment].audited += 1
                self.tallies[task.environment].audit_sum += score

    def take_tally(self, name: str) -> Tally:
        """What became of an environment's answers since this was last asked."""
        done, self.tallies[name] = self.tallies[name], Tally()
        return done

    def take_work(self) -> Work:
        """What local judges have computed since this was last asked."""
        done = [judge.take_work() for judge in self._judges.values()]
        return Work(sum(one.flop for one in done), sum(one.executed_flop for one in done))

    def _verified(self, pairs: Pairs) -> list[float | None]:
        if not pairs:
            return []
        if self._pool is None:
            self._pool = LocalPool(self._workers)
        return [record.verdict.score for record in stream(pairs, self._pool, Plan(ordered=True))]

    def close(self) -> None:
        """End the worker processes."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            self._pool = None

    def __enter__(self) -> Self:
        """Nothing is started before the first answer."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        self.close()


def audit_of(spec: EnvironmentSpec, folder: Path) -> Judge | None:
    """Find what an environment is audited by; None is what the task's own domain does.

    Examples
    --------
    >>> audit_of(EnvironmentSpec("sums", audit="domain"), Path()) is None
    True
    """
    if spec.audit == DOMAIN:
        return None
    judge = Judge(spec.audit, folder.resolve())
    scorer_of(judge)
    return judge


def check_judges(recipe: Recipe, device: torch.device | str = "cpu") -> None:
    """Ask every judge that is a language model about one answer, and find what environments are audited by.

    Examples
    --------
    >>> check_judges(Recipe())
    """
    for one in recipe.environments:
        if one.audit:
            audit_of(one, recipe.folder)
        if isinstance(one.judge, JudgeSpec):
            task = next(iter(load_tasks(recipe.folder / one.tasks).values()), Task("1", "text"))
            item = item_of(task, str(task.spec.get("answer", "I do not know.")))
            found = judge_of(one.judge, recipe, device).judgements([item])[0]
            if found.score is None:
                raise InputError(
                    f"environment {shown(one.name)}: judge {shown(one.judge.model)}: no verdict on a first answer: "
                    f"{found.reason}"
                )
