"""Text: scorers of next tokens behind the same interface; the trainer registers its own, three ship here."""

from __future__ import annotations

import re
from collections.abc import Callable
from numbers import Real
from pathlib import Path

from computeledger.errors import ComputeLedgerError, InputError, nearest, shown
from rntp.plugins import JUDGES, check_call, is_known, resolve, said
from rntp.verify.extract import after_thoughts
from rntp.verify.task import Judge, Task, required
from rntp.verify.verdict import FORMAT, Verdict, verdict

#: A scorer takes the task and the completion and gives a score from 0 to 1.
Scorer = Callable[[Task, str], float]
_SCORERS: dict[str, Scorer] = {}


def register_scorer(name: str, scorer: Scorer) -> None:
    """Make a scorer known by name, for tasks with ``"scorer": name``.

    Examples
    --------
    >>> register_scorer("length", lambda task, text: min(len(text) / 100, 1.0))
    >>> check_text(Task("1", "text", {"answer": "", "scorer": "length"}), "ten letter").score
    0.1
    """
    _SCORERS[name] = scorer


def prefix_score(task: Task, completion: str) -> float:
    """Score 1 where the prediction is a prefix of what came next, up to the end of a word.

    Examples
    --------
    >>> task = Task("1", "text", {"answer": " the quick fox"})
    >>> prefix_score(task, "<think>hm</think> the quick"), prefix_score(task, " the qu")
    (1.0, 0.0)
    >>> prefix_score(Task("2", "text", {"answer": '"No", he said'}), '"')
    0.0
    """
    gold, guess = str(task.spec["answer"]), after_thoughts(completion)
    ends = (
        len(guess) == len(gold) or not (gold[len(guess) : len(guess) + 1] + gold[len(guess) - 1 : len(guess)]).isalnum()
    )
    said = any(letter.isalnum() for letter in guess) or (guess.strip() != "" and guess == gold)
    return float(said and gold.startswith(guess) and ends)


def exact_score(task: Task, completion: str) -> float:
    """Score 1 where the prediction is what came next, blanks around it aside.

    Examples
    --------
    >>> exact_score(Task("1", "text", {"answer": "fox"}), "<think>an animal</think> fox")
    1.0
    """
    return float(after_thoughts(completion).strip() == str(task.spec["answer"]).strip())


def pattern_score(task: Task, completion: str) -> float:
    r"""Score 1 where the prediction, blanks around it aside, is one that a regular expression describes.

    Examples
    --------
    >>> task = Task("1", "text", {"answer": r"it came to \S+ on tue \.", "scorer": "pattern"})
    >>> [pattern_score(task, f"<think>hm</think> it came to hull on {day} .") for day in ("tue", "mon")]
    [1.0, 0.0]
    """
    answer = str(task.spec["answer"])
    try:
        return float(re.fullmatch(answer, after_thoughts(completion).strip()) is not None)
    except re.error as error:
        raise InputError(f"task {shown(task.id)}: answer {shown(answer)} is no regular expression: {error}") from None


register_scorer("prefix", prefix_score)
register_scorer("exact", exact_score)
register_scorer("pattern", pattern_score)


def check_text(task: Task, completion: str) -> Verdict:
    """Score a prediction of text.

    Examples
    --------
    >>> check_text(Task("1", "text", {"answer": " fox jumps"}), " fox").status
    'correct'
    """
    required(task, "answer", str)
    name = task.spec.get("scorer", "prefix")
    # of an installed package too, but no function that a file of somebody else's names
    if not isinstance(name, str) or ":" in name or not is_known(JUDGES, name, _SCORERS):
        raise InputError(f"task {shown(task.id)}: unknown scorer {shown(name)}: {nearest(str(name), _SCORERS)}")
    if not after_thoughts(completion).strip():
        return verdict(0.0, "no prediction", FORMAT)
    return judged(name, _SCORERS.get(name) or scorer_of(Judge(name, Path())), task, completion)


def scorer_of(judge: Judge) -> Scorer:
    """Find a judge, and refuse one that cannot be called; shipped scorers of text are among them.

    Examples
    --------
    >>> scorer_of(Judge("math:sqrt", Path()))
    Traceback (most recent call last):
    computeledger.errors.InputError: judge 'math:sqrt': takes (x, /), and is given (task, completion)
    """
    scorer: Scorer = resolve(JUDGES, judge.name, judge.folder, _SCORERS)
    check_call(JUDGES, judge.name, scorer, "task", "completion")
    return scorer


def judged(name: str, scorer: Scorer, task: Task, completion: str) -> Verdict:
    """Score an answer by a judge.

    Examples
    --------
    >>> judged("mine:half", lambda task, completion: 0.5, Task("1", "text"), "so").score
    0.5
    >>> judged("mine:two", lambda task, completion: 2, Task("1", "text"), "so")
    Traceback (most recent call last):
    computeledger.errors.InputError: judge 'mine:two': gave 2 for task '1': a number from 0 to 1 is needed
    """
    try:
        score: object = scorer(task, completion)
    except ComputeLedgerError:
        raise
    except Exception as error:  # whatever somebody else's code does
        raise InputError(f"judge {shown(name)}: {said(error)}") from error
    if not isinstance(score, Real) or not 0 <= float(score) <= 1:
        raise InputError(
            f"judge {shown(name)}: gave {shown(score)} for task {shown(task.id)}: a number from 0 to 1 is needed"
        )
    return verdict(float(score), f"by {name}")
