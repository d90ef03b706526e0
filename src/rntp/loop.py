"""The whole algorithm in plain PyTorch, to be read, and to hold the trainer against.

At each place of a text the model thinks: it samples ``<think> c_1 .. c_n </think>`` after the context. A thought is
worth what it adds to the log-likelihood of the text that follows,

    R = sum_t log p(g_t | context, thought, g_<t) - log p(g_t | context, g_<t),

and is compared with the other thoughts at the same place: A = R - mean(R), divided by the batch's root mean square. The
gradient step is on

    - sum_i A_i sum_t log pi(c_t) / tokens  +  nll * NLL(gold | thought)  +  ntp * NLL(documents)  +  kl * KL(pi, pi_0),

or on the mean over thoughts of the mean over their tokens.

Left out of what the trainer does: caches and shared contexts (every row is read whole), several processes, verified
answers, other rewards, running means, several updates per batch, thoughts drawn ahead, bfloat16, checkpoints,
and books.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from rntp.positions import Place
from rntp.recipe import Recipe

Ids = Sequence[int]


@dataclass(frozen=True, slots=True)
class Markers:
    """Tokens that the loop needs to know."""

    start: int
    end: int
    stop: int


@dataclass(frozen=True, slots=True)
class Step:
    """What one update was made of."""

    loss: float
    rewards: list[float]
    thoughts: list[list[int]]


def _read(model: Any, rows: Sequence[Ids], temperature: float = 1.0) -> Tensor:
    """Log-probability of every token but the first of each row; behind a row's end it means nothing."""
    width = max(map(len, rows))
    ids = torch.tensor([[*row, *[0] * (width - len(row))] for row in rows])  # causal: padding behind is never seen
    log_p = torch.log_softmax(model(input_ids=ids).logits[:, :-1].float() / temperature, dim=-1)
    return log_p.gather(-1, ids[:, 1:, None])[..., 0]


@torch.no_grad()
def _sample(model: Any, prompts: Sequence[Ids], endings: Ids, budget: int, temperature: float) -> list[list[int]]:
    """Continue each prompt up to an ending, which is kept, or so many tokens."""
    rows, open_rows = [list(prompt) for prompt in prompts], [True] * len(prompts)
    for _ in range(budget):
        width = max(map(len, rows))
        ids = torch.tensor([[*row, *[0] * (width - len(row))] for row in rows])
        last = torch.tensor([len(row) - 1 for row in rows])
        logits = model(input_ids=ids).logits[torch.arange(len(rows)), last].float() / temperature
        drawn = torch.multinomial(torch.softmax(logits, dim=-1), 1)[:, 0].tolist()  # finished rows draw too, in vain
        for place, token in enumerate(drawn):
            if open_rows[place]:
                rows[place].append(token)
                open_rows[place] = token not in endings
        if not any(open_rows):
            break
    return [row[len(prompt) :] for row, prompt in zip(rows, prompts, strict=True)]


def _rewards(model: Any, rows: Sequence[Place], thoughts: Sequence[Ids], skip_first: int) -> list[float]:
    """Log-likelihood gain of each thought, in nats; thoughts have both markers."""
    aided = _read(
        model, [[*row.context_ids, *thought, *row.gold_ids] for row, thought in zip(rows, thoughts, strict=True)]
    )
    alone = _read(model, [[*row.context_ids, *row.gold_ids] for row in rows])
    out = []
    for place, (row, thought) in enumerate(zip(rows, thoughts, strict=True)):
        first, count = len(row.context_ids) - 1, len(row.gold_ids)
        with_thought = aided[place, first + len(thought) :][:count][skip_first:]
        without = alone[place, first:][:count][skip_first:]
        out.append(float((with_thought - without).double().sum()))
    return out


def _settled(rewards: list[float], closed: list[bool], group: int, rule: str) -> Tensor:
    """What thoughts are worth that never ended: the worst of their group and no better than none, or NaN."""
    values = torch.tensor(rewards, dtype=torch.float64).view(-1, group)
    cut = ~torch.tensor(closed).view(-1, group)
    if rule == "keep":
        return values
    if rule == "drop":
        return values.masked_fill(cut, torch.nan)
    worst = values.min(dim=1, keepdim=True).values.clamp(max=0.0).expand_as(values)
    return torch.where(cut, worst, values)


def _advantages(values: Tensor, *, leave_one_out: bool, scaled: bool) -> Tensor:
    """Each thought against its group, flat; NaN has advantage 0."""
    known = ~values.isnan()
    count = known.sum(dim=1, keepdim=True)
    centred = torch.where(known, values - values.nansum(dim=1, keepdim=True) / count.clamp(min=1), 0.0)
    if leave_one_out:
        centred = centred * count / (count - 1).clamp(min=1) * (count > 1)
    size = (centred.square().sum() / known.sum().clamp(min=1)).sqrt()
    return (centred / size if scaled and size > 0 else centred).flatten()


@dataclass(frozen=True, slots=True)
class _Batch:
    """Thoughts of one update: with both markers, how many tokens of each were sampled, and which ones count."""

    rows: list[Place]
    thoughts: list[list[int]]
    sampled: list[int]
    known: list[bool]
    advantages: Tensor


def _policy_loss(model: Any, reference: Any, batch: _Batch, recipe: Recipe) -> Tensor:
    """The policy's term, the gold's, and the divergence from the reference."""
    temperature, kl_weight = recipe.rl.temperature, recipe.thought.kl_weight
    whole = [[*row.context_ids, *thought] for row, thought in zip(batch.rows, batch.thoughts, strict=True)]
    now = _read(model, whole, temperature)
    with torch.no_grad():
        then = _read(reference, whole, temperature) if kl_weight > 0 else now
    total, gold, golds = torch.zeros(()), torch.zeros(()), 0
    for place, (row, advantage) in enumerate(zip(batch.rows, batch.advantages, strict=True)):
        part = slice(len(row.context_ids), len(row.context_ids) + batch.sampled[place])
        log_p = now[place, part]
        ratio = torch.exp(log_p - log_p.detach())  # 1, with the gradient of log p
        term = -(ratio * advantage).sum()
        if kl_weight > 0:
            apart = then[place, part] - log_p
            term = term + kl_weight * (ratio * (apart.exp() - apart - 1)).sum()
        total = total + (term / max(1, batch.sampled[place]) if recipe.rl.average == "thoughts" else term)
    loss = total / (len(batch.rows) if recipe.rl.average == "thoughts" else max(1, sum(batch.sampled)))
    if recipe.reward.nll_weight > 0:
        full = _read(model, [[*ids, *row.gold_ids] for ids, row in zip(whole, batch.rows, strict=True)])
        skip = recipe.positions.skip_first_gold
        for place, row in enumerate(batch.rows):
            first, last = len(whole[place]) - 1, len(whole[place]) - 1 + len(row.gold_ids)
            if batch.known[place]:
                gold, golds = gold - full[place, first + skip : last].sum(), golds + max(0, len(row.gold_ids) - skip)
        loss = loss + recipe.reward.nll_weight * gold / max(1, golds)
    return loss


def _text_loss(model: Any, documents: Sequence[Ids]) -> Tensor:
    """Mean next-token loss over documents."""
    log_p = _read(model, documents)
    total = sum((-log_p[place, : len(ids) - 1].sum() for place, ids in enumerate(documents)), torch.zeros(()))
    return total / sum(len(ids) - 1 for ids in documents)


def train(
    model: Any,
    markers: Markers,
    places: Sequence[Place],
    recipe: Recipe,
    documents: Sequence[Ids] = (),
    optimizer: torch.optim.Optimizer | None = None,
) -> Iterator[Step]:
    """Train, one update after the other.

    Examples
    --------
    >>> from transformers import LlamaConfig, LlamaForCausalLM
    >>> from rntp.recipe import RlSpec, ThoughtSpec
    >>> shape = {"vocab_size": 9, "hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1}
    >>> model = LlamaForCausalLM(LlamaConfig(**shape, num_attention_heads=2)).eval()
    >>> recipe = Recipe(rl=RlSpec(steps=1, prompts_per_step=1, group_size=2), thought=ThoughtSpec(budget=3))
    >>> [len(step.rewards) for step in train(model, Markers(7, 8, 0), [Place((1, 2), (3, 4), "a", 2)], recipe)]
    [2]
    """
    rl, thought = recipe.rl, recipe.thought
    reference = copy.deepcopy(model)
    judge = reference if recipe.reward.scorer == "frozen" else model
    changes = optimizer or torch.optim.AdamW(model.parameters(), lr=rl.learning_rate, weight_decay=rl.weight_decay)
    for step in range(rl.steps):
        chosen = [places[(step * rl.prompts_per_step + n) % len(places)] for n in range(rl.prompts_per_step)]
        rows = [place for place in chosen for _ in range(rl.group_size)]
        prompts = [[*row.context_ids, markers.start] for row in rows]
        found = _sample(model, prompts, [markers.end, markers.stop], thought.budget, rl.temperature)
        closed = [ids[-1] == markers.end for ids in found]
        thoughts = [[markers.start, *ids, *[markers.end] * (not c)] for ids, c in zip(found, closed, strict=True)]
        with torch.no_grad():
            values = _rewards(judge, rows, thoughts, recipe.positions.skip_first_gold)
        values = [value - thought.length_weight * len(ids) for value, ids in zip(values, found, strict=True)]
        worth = _settled(values, closed, rl.group_size, thought.truncation)
        known = (~worth.isnan()).flatten().tolist()
        compared = _advantages(worth, leave_one_out=rl.advantage == "leave-one-out", scaled=rl.scale == "batch-std")
        sampled = [len(ids) * counts for ids, counts in zip(found, known, strict=True)]
        loss = _policy_loss(model, reference, _Batch(rows, thoughts, sampled, known, compared), recipe)
        if rl.ntp_weight > 0:
            texts = [documents[(step * rl.ntp_sequences + n) % len(documents)] for n in range(rl.ntp_sequences)]
            loss = loss + rl.ntp_weight * _text_loss(model, [ids[: rl.ntp_tokens] for ids in texts])
        changes.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]  # torch types it in part
        torch.nn.utils.clip_grad_norm_(model.parameters(), rl.max_grad_norm)
        changes.step()
        yield Step(loss.item(), worth.flatten().tolist(), found)
