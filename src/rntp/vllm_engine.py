"""What a vLLM engine answers through TRL, checked, and what is wrong with a server, said in one line."""

from __future__ import annotations

import json
import math
import textwrap
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

#: Modules whose errors are the server's: TRL's client, and the checks here.
_OF_SERVER = ("trl.generation.", f"{__name__}.")
#: Longest reason that is quoted [-].
_LONGEST = 240


def answers(
    engine: Any, prompts: Sequence[list[int]], each: int, vocabulary: int
) -> tuple[list[list[int]], list[list[float]]]:
    """Ask an engine of TRL for completions: their tokens, and the log-probability of each as it was sampled.

    Examples
    --------
    >>> class Engine:
    ...     def generate(self, prompts, images, each):
    ...         return prompts, [[3]], [[[-0.5]]], None
    >>> answers(Engine(), [[1, 2]], 1, vocabulary=4)
    ([[3]], [[-0.5]])
    """
    read, ids, found, _ = engine.generate(prompts, None, each)
    if found is None:
        raise ValueError("gives no log-probabilities")
    if len(ids) != len(prompts) or [list(one) for one in read] != [list(one) for one in prompts]:
        raise ValueError(f"gives {len(ids)} answers to {len(prompts)} prompts, or to others than it was asked")
    if any(not 0 <= token < vocabulary for row in ids for token in row):
        raise ValueError(f"gives tokens that are not among the model's {vocabulary}: it serves another model")
    log_probs = [[0.0 if one[0] is None else float(one[0]) for one in row] for row in found]
    if [len(row) for row in log_probs] != [len(row) for row in ids]:
        raise ValueError("gives other numbers of tokens and of log-probabilities")
    if any(not -math.inf < one <= 1e-3 for row in log_probs for one in row):
        raise ValueError("gives log-probabilities that are none")
    return ids, log_probs


@contextmanager
def faults_named(address: str, refusal: Callable[[str], Exception]) -> Iterator[None]:
    """Say in one line what is wrong with a server; errors of anything else pass as they are.

    Examples
    --------
    >>> from computeledger.errors import InputError
    >>> with faults_named("http://a:8000", InputError):
    ...     answers(None, [[1]], 1, vocabulary=4)
    Traceback (most recent call last):
    computeledger.errors.InputError: vLLM server http://a:8000: its answer cannot be read (AttributeError: ...)
    """
    try:
        yield
    except Exception as error:
        frames = traceback.walk_tb(error.__traceback__)
        if not any(f"{frame.f_globals.get('__name__', '')}.".startswith(_OF_SERVER) for frame, _ in frames):
            raise
        raise refusal(f"vLLM server {address}: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    said = textwrap.shorten(str(error), _LONGEST, placeholder=" ...")
    if isinstance(error, json.JSONDecodeError):
        return "its answer is no JSON"
    if isinstance(error, OSError):
        return "it cannot be reached"
    if isinstance(error, LookupError | TypeError | AttributeError):
        return f"its answer cannot be read ({type(error).__name__}: {said})"
    return said
