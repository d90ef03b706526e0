"""Where to think: rules that choose places in a chunk of text.

A rule is pure. One that asks what a model makes of the text is given that as an array, a value per token.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
from numpy.typing import NDArray

from computeledger.errors import ComputeLedgerError, InputError, shown
from rntp.corpus import Chunk
from rntp.plugins import POSITIONS, check_call, resolve, said
from rntp.recipe import PositionSpec

#: Where a sentence ends: its mark, what may close it, and white space; or an empty line.
_SENTENCE = re.compile(r"[.!?:][\"')\]]*(?=\s)|\n(?=\s*\n)")
#: Chunks in a row without a place after which a corpus is said to have none.
PATIENCE = 10_000


@dataclass(frozen=True, slots=True)
class Place:
    """A place to think at: what stands before, and what follows.

    Attributes
    ----------
    context_ids, gold_ids : tuple of int
        Tokens before the thought, and of the continuation.
    document : str
        Where the text came from.
    position : int
        Token of the chunk before which the thought stands.
    kind : str
        Class under which it is counted.
    """

    context_ids: tuple[int, ...]
    gold_ids: tuple[int, ...]
    document: str
    position: int
    kind: str = ""


Rule = Callable[[Chunk, PositionSpec, np.random.Generator, NDArray[np.float64] | None], NDArray[np.int64]]


def _allowed(chunk: Chunk, spec: PositionSpec) -> NDArray[np.int64]:
    """Positions with enough before and behind them."""
    return np.arange(spec.min_context_tokens, len(chunk.ids) - spec.min_gold_tokens + 1)


def _random(
    chunk: Chunk, spec: PositionSpec, chance: np.random.Generator, _measured: NDArray[np.float64] | None
) -> NDArray[np.int64]:
    """One place anywhere."""
    return _drawn(_allowed(chunk, spec), 1, chance)


def _several(
    chunk: Chunk, spec: PositionSpec, chance: np.random.Generator, _measured: NDArray[np.float64] | None
) -> NDArray[np.int64]:
    """Places anywhere, one in each part of equal length."""
    parts = np.array_split(_allowed(chunk, spec), spec.per_chunk)
    return np.concatenate([_drawn(part, 1, chance) for part in parts])


def _stride(
    chunk: Chunk, spec: PositionSpec, _chance: np.random.Generator, _measured: NDArray[np.float64] | None
) -> NDArray[np.int64]:
    """Places at a fixed distance, the first ones of the chunk."""
    return _allowed(chunk, spec)[:: spec.stride][: spec.per_chunk]


def _sentence(
    chunk: Chunk, spec: PositionSpec, chance: np.random.Generator, _measured: NDArray[np.float64] | None
) -> NDArray[np.int64]:
    """Places where a sentence has just ended."""
    first, last = chunk.starts[0], chunk.starts[-1]
    ends = [found.end() for found in _SENTENCE.finditer(chunk.text, first, last + 1)]
    boundaries = np.searchsorted(np.asarray(chunk.starts), ends, side="left")
    return _drawn(np.intersect1d(boundaries, _allowed(chunk, spec)), spec.per_chunk, chance)


def _marked(
    chunk: Chunk, spec: PositionSpec, chance: np.random.Generator, _measured: NDArray[np.float64] | None
) -> NDArray[np.int64]:
    """Places that the corpus marks itself."""
    marks = np.asarray(chunk.marks, dtype=np.int64)
    return _drawn(np.intersect1d(marks, _allowed(chunk, spec)), spec.per_chunk, chance)


def _entropy_band(
    chunk: Chunk, spec: PositionSpec, chance: np.random.Generator, measured: NDArray[np.float64] | None
) -> NDArray[np.int64]:
    """Places where the model's entropy lies between two quantiles of the chunk's."""
    allowed = _allowed(chunk, spec)
    entropy = _needed(measured, chunk, spec)[allowed]
    if not allowed.size:
        return allowed
    low, high = np.quantile(entropy, [spec.low, min(spec.high, 1.0)])
    return _drawn(allowed[(entropy >= low) & (entropy <= high)], spec.per_chunk, chance)


def _band(
    chunk: Chunk, spec: PositionSpec, chance: np.random.Generator, measured: NDArray[np.float64] | None
) -> NDArray[np.int64]:
    """Places where what was measured lies between two values; not measured is NaN."""
    allowed = _allowed(chunk, spec)
    values = _needed(measured, chunk, spec)[allowed]
    return _drawn(allowed[(values >= spec.low) & (values <= spec.high)], spec.per_chunk, chance)


def _needed(measured: NDArray[np.float64] | None, chunk: Chunk, spec: PositionSpec) -> NDArray[np.float64]:
    if measured is None or measured.shape != (len(chunk.ids),):
        raise InputError(f"positions: rule {spec.rule!r} needs the {spec.measured} of each token of the chunk")
    return measured


def _drawn(allowed: NDArray[np.int64], count: int, chance: np.random.Generator) -> NDArray[np.int64]:
    """Some of them, in order."""
    if not allowed.size:
        return np.empty(0, dtype=np.int64)
    return np.sort(chance.choice(allowed, size=min(count, allowed.size), replace=False))


RULE_FUNCTIONS: dict[str, Rule] = {
    "random": _random,
    "several": _several,
    "stride": _stride,
    "entropy-band": _entropy_band,
    "learnability-band": _band,
    "sentence": _sentence,
    "proxy": _band,
    "marked": _marked,
}


def rule_of(spec: PositionSpec) -> Rule:
    """Find a rule.

    Parameters
    ----------
    spec : PositionSpec
        Its name, and where files are looked for.

    Returns
    -------
    callable
        A shipped rule, or one of somebody's own, whose positions are checked and put in order.

    Examples
    --------
    >>> rule_of(PositionSpec("strides"))
    Traceback (most recent call last):
    computeledger.errors.InputError: positions: unknown position rule 'strides': did you mean 'stride'? ...FUNCTION
    """
    if spec.rule in RULE_FUNCTIONS:
        return RULE_FUNCTIONS[spec.rule]
    label = f"positions: rule {shown(spec.rule)}"
    try:
        function: Callable[..., Any] = resolve(POSITIONS, spec.rule, spec.folder, RULE_FUNCTIONS)
        asked = ("chunk", "spec", "generator", "measured")[: 4 if spec.measure else 3]
        check_call(POSITIONS, spec.rule, function, *asked)
    except InputError as error:
        raise InputError(f"positions: {error}") from None

    def rule(
        chunk: Chunk, spec: PositionSpec, chance: np.random.Generator, measured: NDArray[np.float64] | None
    ) -> NDArray[np.int64]:
        more = (_needed(measured, chunk, spec),) if spec.measure else ()
        try:
            found = np.asarray(function(chunk, spec, chance, *more))
        except ComputeLedgerError:
            raise
        except Exception as error:  # whatever somebody else's code does
            raise InputError(f"{label}: {said(error)}") from error
        return _checked(found, chunk, spec, label)

    return rule


def _checked(found: NDArray[Any], chunk: Chunk, spec: PositionSpec, label: str) -> NDArray[np.int64]:
    """Positions in order, those without enough before and behind them left out."""
    if found.ndim != 1 or (found.size and found.dtype.kind not in "iu"):
        raise InputError(
            f"{label}: gave an array of {found.dtype}, shape {found.shape}: one row of whole numbers is needed"
        )
    if outside := [int(one) for one in found if not 0 <= one <= len(chunk.ids)]:
        raise InputError(f"{label}: gave {outside[0]}: the chunk has tokens 0 to {len(chunk.ids) - 1}")
    return np.intersect1d(found.astype(np.int64), _allowed(chunk, spec))


def wanted(kind: str, kinds: Sequence[str]) -> bool:
    """Say whether places are taken from documents of a kind.

    Parameters
    ----------
    kind : str
        Of a document.
    kinds : sequence of str
        Of :class:`rntp.recipe.PositionSpec`: names, or patterns as for files.

    Returns
    -------
    bool
        True for any kind where none is named.

    Examples
    --------
    >>> wanted("dance/bare-7", ["prose", "*/bare-[5-9]"]), wanted("recap", ["bare-?"]), wanted("recap", [])
    (True, False, True)
    """
    return not kinds or any(fnmatchcase(kind, one) for one in kinds)


def positions(
    chunk: Chunk,
    spec: PositionSpec,
    chance: np.random.Generator,
    measured: NDArray[np.float64] | None = None,
    rule: Rule | None = None,
) -> NDArray[np.int64]:
    """Choose places in a chunk.

    Parameters
    ----------
    chunk : Chunk
        The text.
    spec : PositionSpec
        The rule.
    chance : numpy.random.Generator
        Of the draw.
    measured : ndarray, optional
        What the rule asks for (``spec.measured``), per token [-].
    rule : callable, optional
        As :func:`rule_of` finds it; looked up where it is left out.

    Returns
    -------
    ndarray
        Tokens before which to think, in order; empty where nothing fits [-].

    Examples
    --------
    >>> chunk = Chunk(tuple(range(30)), tuple(range(30)), "a" * 30, "d")
    >>> spec = PositionSpec("stride", per_chunk=3, stride=5, min_context_tokens=4)
    >>> positions(chunk, spec, np.random.default_rng(0)).tolist()
    [4, 9, 14]
    """
    if not wanted(chunk.kind, spec.kinds):
        return np.empty(0, dtype=np.int64)
    return (rule or rule_of(spec))(chunk, spec, chance, measured)


def candidates(chunk: Chunk, spec: PositionSpec, chance: np.random.Generator) -> NDArray[np.int64]:
    """Choose the places whose reward spread is measured for ``learnability-band``.

    Parameters
    ----------
    chunk : Chunk
        The text.
    spec : PositionSpec
        How many.
    chance : numpy.random.Generator
        Of the draw.

    Returns
    -------
    ndarray
        Tokens before which to think, in order [-].

    Examples
    --------
    >>> chunk = Chunk(tuple(range(30)), tuple(range(30)), "a" * 30, "d")
    >>> candidates(chunk, PositionSpec(candidates=4), np.random.default_rng(0)).size
    4
    """
    return _drawn(_allowed(chunk, spec), spec.candidates, chance)


def place_at(chunk: Chunk, position: int, spec: PositionSpec) -> Place:
    """Cut what stands before a place and what follows.

    Parameters
    ----------
    chunk : Chunk
        The text.
    position : int
        Token before which to think [-].
    spec : PositionSpec
        Lengths of both.

    Returns
    -------
    Place
        With the document's kind.

    Examples
    --------
    >>> chunk = Chunk(tuple(range(30)), tuple(range(30)), "a" * 30, "d", "letters")
    >>> place = place_at(chunk, 10, PositionSpec(context_tokens=3, gold_tokens=2))
    >>> place.context_ids, place.gold_ids, place.kind
    ((7, 8, 9), (10, 11), 'letters')
    """
    context = chunk.ids[max(0, position - spec.context_tokens) : position]
    gold = chunk.ids[position : position + spec.gold_tokens]
    return Place(context, gold, chunk.document, int(position), chunk.kind)


Measure = Callable[[Chunk, NDArray[np.int64]], NDArray[np.float64]]


def chosen(
    chunk: Chunk,
    spec: PositionSpec,
    draw: tuple[int, int],
    measure: Measure | None = None,
    rule: Rule | None = None,
) -> NDArray[np.int64]:
    """Choose places in a chunk by a rule that may ask a model.

    Parameters
    ----------
    chunk : Chunk
        The text.
    spec : PositionSpec
        The rule.
    draw : tuple of int and int
        Seed and turn of the chunk: the draw depends on them only [-], [-].
    measure : callable, optional
        Gives the array that the rule asks for, from a chunk and the places that may be chosen.
    rule : callable, optional
        As for :func:`positions`.

    Returns
    -------
    ndarray
        Tokens before which to think, in order; empty where nothing fits [-].

    Examples
    --------
    >>> chunk = Chunk(tuple(range(30)), tuple(range(30)), "a" * 30, "d")
    >>> spec = PositionSpec("entropy-band", low=0.9, high=1.0)
    >>> bool(chosen(chunk, spec, (0, 0), lambda chunk, allowed: np.arange(30.0))[0] >= 25)
    True
    """
    chance = np.random.default_rng(draw)
    measured = None
    if spec.measured and measure is not None and wanted(chunk.kind, spec.kinds):
        asked = candidates(chunk, spec, chance) if spec.measured == "spread" else _allowed(chunk, spec)
        measured = measure(chunk, asked) if asked.size else np.full(len(chunk.ids), np.nan)
    return positions(chunk, spec, chance, measured, rule)


def no_place(spec: PositionSpec, n_chunks: int) -> InputError:
    """Say that a corpus has no place to think at.

    Parameters
    ----------
    spec : PositionSpec
        The rule.
    n_chunks : int
        Chunks that were looked at [-].

    Returns
    -------
    InputError
        To be raised.

    Examples
    --------
    >>> str(no_place(PositionSpec(), 3)).split(":")[1]
    " rule 'random' finds no place in 3 chunks"
    """
    return InputError(
        f"positions: rule {shown(spec.rule)} finds no place in {n_chunks} chunks: a context of at least "
        f"{spec.min_context_tokens} and a continuation of at least {spec.min_gold_tokens} tokens are needed"
    )


def places(
    read: Iterable[Chunk],
    spec: PositionSpec,
    seed: int = 0,
    measure: Measure | None = None,
    patience: int = PATIENCE,
) -> Iterator[Place]:
    """Choose places in chunk after chunk.

    Parameters
    ----------
    read : iterable of Chunk
        Texts.
    spec : PositionSpec
        The rule.
    seed : int
        Of the draws; a chunk's draw depends on its turn only [-].
    measure : callable, optional
        As for :func:`chosen`.
    patience : int
        Chunks without a place after which the corpus is said to have none [-].

    Yields
    ------
    Place
        As long as there are chunks.

    Examples
    --------
    >>> chunk = Chunk(tuple(range(30)), tuple(range(30)), "a" * 30, "d")
    >>> [len(place.gold_ids) for place in places([chunk, chunk], PositionSpec(gold_tokens=2))]
    [2, 2]
    """
    barren, fruitful, turn, rule = 0, False, -1, rule_of(spec)
    for turn, chunk in enumerate(read):
        found = chosen(chunk, spec, (seed, turn), measure, rule)
        barren = 0 if found.size else barren + 1
        fruitful = fruitful or bool(found.size)
        if barren >= patience:
            break
        yield from (place_at(chunk, int(position), spec) for position in found)
    if not fruitful or barren >= patience:
        raise no_place(spec, barren or turn + 1)


def places_at(read: Iterable[Chunk], spec: PositionSpec, found: Iterable[Sequence[int]]) -> Iterator[Place]:
    """Cut places that were chosen before.

    Parameters
    ----------
    read : iterable of Chunk
        The same texts in the same order.
    spec : PositionSpec
        Lengths.
    found : iterable of sequence of int
        Positions of each chunk, from the first [-].

    Yields
    ------
    Place
        As long as there are positions.

    Examples
    --------
    >>> chunk = Chunk(tuple(range(30)), tuple(range(30)), "a" * 30, "d")
    >>> [place.position for place in places_at([chunk, chunk], PositionSpec(), [[], [9, 12]])]
    [9, 12]
    """
    for positions_, chunk in zip(found, read, strict=False):
        yield from (place_at(chunk, int(position), spec) for position in positions_)
