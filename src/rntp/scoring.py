"""Scores of thoughts and of the continuations after them, with the context read once per group.

A row is context, thought and gold: ``c_1 .. c_C | <think> .. </think> | g_1 .. g_L``. :func:`score_shared` reads each
distinct context once, keeps its keys and values, and reads all thoughts and golds behind copies of them in one pass,
which gives the thoughts' log-probabilities and the gold's together. :func:`score_separate` reads every row whole, once
for each: slower, and the reference that the first must equal. For the same number of rows every process makes the same
number of forward passes, whatever is in them, as sharded models need. Logits are never kept: :mod:`rntp.head`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import DynamicLayer

from computeledger.errors import InputError
from rntp.head import CACHE, Asked, Reader, Sums, part_rows, sums

Ids = Sequence[int]
Phase = Callable[[str], AbstractContextManager[Any]]
THOUGHTS, BASELINE = "thought scoring", "baseline"


@dataclass(frozen=True, slots=True)
class Rollouts:
    """Thoughts to score; row by row."""

    contexts: Sequence[Ids]
    thoughts: Sequence[Ids]
    golds: Sequence[Ids]

    def __post_init__(self) -> None:
        """Refuse rows that cannot be read."""
        if not len(self.contexts) == len(self.thoughts) == len(self.golds) or not self.contexts:
            raise InputError("rollouts: as many contexts as thoughts and golds are needed, and at least one")
        if not all(map(len, self.contexts)) or not all(map(len, self.thoughts)):
            raise InputError("rollouts: contexts and thoughts of at least one token are needed")

    def part(self, start: int, stop: int) -> Rollouts:
        """Take some rows."""
        return Rollouts(self.contexts[start:stop], self.thoughts[start:stop], self.golds[start:stop])


@dataclass(frozen=True, slots=True)
class ScoreOptions:
    """How rows are scored."""

    temperature: float = 1.0
    rows_per_pass: int = 0
    with_baseline: bool = True
    question: Ids = ()
    yes_id: int = 0
    no_id: int = 0
    with_thoughts: bool = True


@dataclass(frozen=True, slots=True)
class TokenScores:
    """Scores of the gold, (B, L); 0 behind a row's end."""

    log_probs: Tensor
    entropies: Tensor
    argmax_ids: Tensor


@dataclass(frozen=True, slots=True)
class Scored:
    """What one call measured; None where it was not asked for."""

    thought_log_probs: Tensor | None
    gold: TokenScores
    baseline: TokenScores | None
    self_evaluation: Tensor | None


@dataclass(frozen=True, slots=True)
class _Tail:
    """What is read behind the contexts, right-padded, and where its parts are."""

    ids: Tensor
    thought_lengths: Tensor
    gold_lengths: Tensor


def padded(
    rows: Sequence[Ids], device: torch.device | None = None, *, left: bool = False, pad_id: int = 0
) -> tuple[Tensor, Tensor]:
    """Put rows of token ids into one array.

    Examples
    --------
    >>> padded([[5, 6], [7]], left=True)[0].tolist()
    [[5, 6], [0, 7]]
    """
    width = max(map(len, rows), default=0)
    ids, mask = torch.full((len(rows), width), pad_id), torch.zeros((len(rows), width), dtype=torch.long)
    for place, row in enumerate(rows):
        span = slice(width - len(row), width) if left else slice(0, len(row))
        ids[place, span], mask[place, span] = torch.tensor(row, dtype=torch.long), 1
    return ids.to(device), mask.to(device)


def _tail(rollouts: Rollouts, question: Ids, device: torch.device, *, thoughts: bool = True) -> _Tail:
    heads = rollouts.thoughts if thoughts else [()] * len(rollouts.golds)
    rows = [[*head, *gold, *question] or [0] for head, gold in zip(heads, rollouts.golds, strict=True)]
    lengths = [torch.tensor([len(row) for row in part], device=device) for part in (heads, rollouts.golds)]
    return _Tail(padded(rows, device)[0], *lengths)


def _positions(mask: Tensor) -> Tensor:
    return (mask.cumsum(dim=1) - 1).clamp(min=0)


def _gold(logits: Tensor, tail: _Tail) -> TokenScores:
    """Scores of the gold from logits of which place j predicts place j of the tail."""
    width = int(tail.gold_lengths.max())
    within = torch.arange(width, device=logits.device)
    mask = within < tail.gold_lengths[:, None]
    places = (tail.thought_lengths[:, None] + within).clamp(max=tail.ids.shape[1] - 1)
    rows = torch.arange(len(places), device=logits.device)[:, None]
    log_p = torch.log_softmax(logits[rows, places].float(), dim=-1)
    chosen = log_p.gather(-1, tail.ids.gather(1, places)[..., None])[..., 0]
    entropies = -(log_p.exp() * log_p).sum(dim=-1)
    return TokenScores(chosen * mask, entropies * mask, log_p.argmax(dim=-1) * mask)


def _read_tail(logits: Tensor, tail: _Tail, options: ScoreOptions) -> tuple[Tensor, TokenScores, Tensor | None]:
    """Thought, gold and judgement from logits of which place j predicts place j + 1 of the tail."""
    thought = tail.ids[:, 1 : int(tail.thought_lengths.max())]
    scaled = logits[:, : thought.shape[1]].float() / options.temperature
    log_probs = torch.log_softmax(scaled, dim=-1).gather(-1, thought[..., None])[..., 0]
    mask = torch.arange(1, thought.shape[1] + 1, device=logits.device) < tail.thought_lengths[:, None]
    said = None
    if options.question:
        last = tail.thought_lengths + tail.gold_lengths + len(options.question) - 1
        answer = logits[torch.arange(len(last), device=logits.device), last][:, [options.yes_id, options.no_id]]
        said = torch.softmax(answer.float(), dim=-1)[:, 0]
    shifted = torch.cat([logits[:, :1], logits[:, :-1]], dim=1)  # place 0 is given, and never read
    return log_probs * mask, _gold(shifted, tail), said


def _distinct(rows: Sequence[tuple[Ids, ...]]) -> tuple[list[tuple[Ids, ...]], list[int]]:
    """Distinct rows in the order of their first, and for each row which one it is."""
    places: dict[Any, int] = {}
    index = [places.setdefault(tuple(tuple(part) for part in row), len(places)) for row in rows]
    return list(places), index


def _parts(rollouts: Rollouts, options: ScoreOptions) -> Iterator[Rollouts]:
    size = options.rows_per_pass or len(rollouts.contexts)
    for start in range(0, len(rollouts.contexts), size):
        yield rollouts.part(start, start + size)


def _joined(pieces: list[Tensor]) -> Tensor:
    """One array of arrays that may differ in width."""
    width = max(piece.shape[1] for piece in pieces)
    return torch.cat([torch.nn.functional.pad(piece, (0, width - piece.shape[1])) for piece in pieces])


def _tokens(parts: list[TokenScores]) -> TokenScores:
    return TokenScores(*(_joined([getattr(part, name) for part in parts]) for name in TokenScores.__slots__))


def _together(pieces: list[Scored]) -> Scored:
    said = [piece.self_evaluation for piece in pieces if piece.self_evaluation is not None]
    baselines = [piece.baseline for piece in pieces if piece.baseline is not None]
    thoughts = [piece.thought_log_probs for piece in pieces if piece.thought_log_probs is not None]
    return Scored(
        _joined(thoughts) if thoughts else None,
        _tokens([piece.gold for piece in pieces]),
        _tokens(baselines) if baselines else None,
        torch.cat(said) if said else None,
    )


def pad_of(model: Any) -> int:
    """Find a model's padding token.

    Examples
    --------
    >>> pad_of(object())
    0
    """
    found = getattr(getattr(model, "config", None), "pad_token_id", None)
    return found if isinstance(found, int) else 0


def _device(model: Any) -> torch.device:
    device: torch.device = next(iter(model.parameters())).device
    return device


@torch.no_grad()
def score_shared(
    model: Any, rollouts: Rollouts, options: ScoreOptions | None = None, phase: Phase = lambda _name: nullcontext()
) -> Scored:
    """Score thoughts and golds with each distinct context read once.

    Examples
    --------
    >>> from transformers import LlamaConfig, LlamaForCausalLM
    >>> shape = {"vocab_size": 9, "hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1}
    >>> model = LlamaForCausalLM(LlamaConfig(**shape, num_attention_heads=2)).eval()
    >>> rows = Rollouts([[1, 2, 3]] * 2, [[7, 4, 8], [7, 8]], [[5, 6]] * 2)
    >>> shared, separate = score_shared(model, rows), score_separate(model, rows)
    >>> bool((shared.gold.log_probs - separate.gold.log_probs).abs().max() < 1e-5)
    True
    """
    how = options or ScoreOptions()
    return _together([_score_part(model, part, how, phase) for part in _parts(rollouts, how)])


@torch.no_grad()
def score_alone(
    model: Any, rollouts: Rollouts, options: ScoreOptions | None = None, phase: Phase = lambda _name: nullcontext()
) -> TokenScores:
    """Score the golds of some rows without their thoughts, each distinct context read once.

    Examples
    --------
    >>> from transformers import LlamaConfig, LlamaForCausalLM
    >>> shape = {"vocab_size": 9, "hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1}
    >>> model = LlamaForCausalLM(LlamaConfig(**shape, num_attention_heads=2)).eval()
    >>> rows = Rollouts([[1, 2, 3]] * 2, [[7, 4, 8], [7, 8]], [[5, 6]] * 2)
    >>> alone, beside = score_alone(model, rows), score_separate(model, rows).baseline
    >>> bool((alone.log_probs - beside.log_probs).abs().max() < 1e-5)
    True
    """
    how = options or ScoreOptions()
    pieces = []
    for part in _parts(rollouts, how):
        with phase(BASELINE):
            pieces.append(_Contexts(model, part).golds_alone(how))
    return _tokens(pieces)


class _Contexts:
    """The distinct contexts of some rows, read once by a model."""

    def __init__(self, model: Any, rollouts: Rollouts) -> None:
        self._device, self._reader = _device(model), Reader(model)
        # a gold belongs to its context: rows of one group share both
        distinct, self._index = _distinct(list(zip(rollouts.contexts, rollouts.golds, strict=True)))
        self._contexts, self._golds = ([row[part] for row in distinct] for part in (0, 1))
        self._rows = torch.tensor(self._index, device=self._device)
        ids, self._mask = padded(self._contexts, self._device, left=True, pad_id=pad_of(model))
        self._uneven = bool((self._mask == 0).any())
        read = self._reader.whole(
            input_ids=ids, attention_mask=self._mask if self._uneven else None, position_ids=_positions(self._mask),
            use_cache=True, logits_to_keep=1,
        )  # fmt: skip
        self._cache, self._logits = read[CACHE], [read.logits[:, -1]]

    def _behind(self, tail: _Tail, cache: Any, rows: Tensor, options: ScoreOptions) -> Sums:
        mask = self._mask[rows]
        places = mask.sum(dim=1)[:, None] + torch.arange(tail.ids.shape[1], device=self._device)
        whole = torch.cat([mask, torch.ones_like(tail.ids)], dim=1) if self._uneven else None
        return self._reader.sums(
            _asked(tail, options), mask.shape[1], input_ids=tail.ids, attention_mask=whole, position_ids=places,
            use_cache=True, **{CACHE: cache},
        )  # fmt: skip

    def golds_alone(self, options: ScoreOptions) -> TokenScores:
        """Scores of the golds right behind their contexts, row by row; once."""
        tail = _tail(Rollouts(self._contexts, self._contexts, self._golds), (), self._device, thoughts=False)
        first = _first(self._logits.pop(), tail.ids[:, :1])
        each, can_be_cut = torch.arange(len(self._contexts), device=self._device), _can_be_cut(self._cache)
        found = self._behind(tail, self._cache if can_be_cut else deepcopy(self._cache), each, options)
        if can_be_cut:
            self._cache.crop(-tail.ids.shape[1])
        base = _shifted_gold(found, tail, first)
        return TokenScores(*(getattr(base, name)[self._rows] for name in TokenScores.__slots__))

    def rows_behind(self, tail: _Tail, options: ScoreOptions) -> Sums:
        """What was asked of the rows' own tails; the contexts can be read behind no more."""
        if self._index != list(range(len(self._contexts))):
            self._cache.batch_select_indices(self._rows)
        return self._behind(tail, self._cache, self._rows, options)


def _can_be_cut(cache: Any) -> bool:
    """Whether what a pass has added to a cache can be taken off again."""
    layers = getattr(cache, "layers", [])
    return bool(layers) and all(type(layer) is DynamicLayer for layer in layers)


def _first(logits: Tensor, next_ids: Tensor) -> Sums:
    """Scores of the tokens right behind the contexts."""
    every = torch.ones_like(next_ids, dtype=torch.bool)
    asked = Asked(next_ids, ~every, every, ~every)
    return sums(lambda places: logits[places[0] : places[-1] + 1], asked, part_rows(logits.shape[1], 0))


def _score_part(model: Any, rollouts: Rollouts, options: ScoreOptions, phase: Phase) -> Scored:
    with phase(THOUGHTS):
        contexts = _Contexts(model, rollouts)
    base, said, thoughts = None, None, None
    if options.with_baseline:
        with phase(BASELINE):
            base = contexts.golds_alone(options)
    with phase(THOUGHTS):
        tail = _tail(rollouts, options.question, _device(model))
        found = contexts.rows_behind(tail, options)
    if options.question:
        last = tail.thought_lengths + tail.gold_lengths + len(options.question) - 1
        said = found.first_of_pair.gather(1, last[:, None])[:, 0]
    if options.with_thoughts:
        thoughts = found.sampled_log_probs[:, : int(tail.thought_lengths.max()) - 1]
    return Scored(thoughts, _shifted_gold(found, tail), base, said)


def _asked(tail: _Tail, options: ScoreOptions) -> Asked:
    """Position j predicts position j + 1 of the tail: of the thought, then of the gold, then the answer."""
    place = torch.arange(1, tail.ids.shape[1] + 1, device=tail.ids.device)
    first, behind = tail.thought_lengths[:, None], (tail.thought_lengths + tail.gold_lengths)[:, None]
    following = torch.cat([tail.ids[:, 1:], tail.ids[:, -1:]], dim=1)
    sampled, last = (place < first) & options.with_thoughts, behind + len(options.question)
    judged = (place == last) & bool(options.question)
    pair = (options.yes_id, options.no_id)
    return Asked(following, sampled, (place >= first) & (place < behind), judged, options.temperature, pair)


def _shifted_gold(found: Sums, tail: _Tail, first: Sums | None = None) -> TokenScores:
    """Scores of the gold, of which ``first`` predicts the first token where no thought stands before it."""
    width = int(tail.gold_lengths.max())
    within = torch.arange(width, device=tail.ids.device)
    mask = within < tail.gold_lengths[:, None]
    places = (tail.thought_lengths[:, None] + within).clamp(max=tail.ids.shape[1] - 1)

    def taken(name: str) -> Tensor:
        values: Tensor = getattr(found, name)
        before = values[:, :1] if first is None else getattr(first, name)
        return torch.cat([before, values[:, :-1]], dim=1).gather(1, places) * mask

    return TokenScores(taken("log_probs"), taken("entropies"), taken("argmax_ids"))


@torch.no_grad()
def score_separate(model: Any, rollouts: Rollouts, options: ScoreOptions | None = None) -> Scored:
    """Score thoughts and golds by separate passes over whole rows: the plain reference.

    Examples
    --------
    >>> from transformers import LlamaConfig, LlamaForCausalLM
    >>> shape = {"vocab_size": 9, "hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1}
    >>> model = LlamaForCausalLM(LlamaConfig(**shape, num_attention_heads=2)).eval()
    >>> score_separate(model, Rollouts([[1, 2]], [[7, 4, 8]], [[5, 6]])).thought_log_probs.shape
    torch.Size([1, 2])
    """
    how = options or ScoreOptions()
    pieces = []
    for part in _parts(rollouts, how):
        nothing = Rollouts(part.contexts, part.thoughts, [()] * len(part.golds))
        thought, _, _ = _read_tail(*_whole(model, nothing, ()), replace(how, question=()))
        _, gold, said = _read_tail(*_whole(model, part, how.question), how)
        base = None
        if how.with_baseline:
            logits, tail = _whole(model, part, (), thoughts=False)
            base = _gold(logits[:, :-1], tail)
        pieces.append(Scored(thought, gold, base, said))
    return _together(pieces)


def _whole(model: Any, rollouts: Rollouts, question: Ids, *, thoughts: bool = True) -> tuple[Tensor, _Tail]:
    """Logits over the tail of rows read whole; without thoughts also those of the context's last token."""
    device = _device(model)
    ids, mask = padded(rollouts.contexts, device, left=True, pad_id=pad_of(model))
    tail = _tail(rollouts, question, device, thoughts=thoughts)
    mask = torch.cat([mask, torch.ones_like(tail.ids)], dim=1)
    out = model(
        input_ids=torch.cat([ids, tail.ids], dim=1), attention_mask=mask, position_ids=_positions(mask),
        use_cache=False, logits_to_keep=tail.ids.shape[1] + (not thoughts),
    )  # fmt: skip
    return out.logits, tail
