"""Rivals of RL trained on as much: plain next-token training, and mixed supervised training, from the same model.

``ntp-equal-tokens`` goes over as many tokens as RL's updates did; ``ntp-equal-time`` over as many as next-token
training manages in the device-time of RL, by the reference of the same ledger; ``mixed-sft`` over as many tokens as the
first, every other sequence a context, a thought of the model before RL, and what follows in the text.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from computeledger.actuals.recording.run import RunLedger, RunMachine
from computeledger.actuals.run_ledger import Entry
from computeledger.actuals.run_summary import BESIDE_RL, next_token_reference, superseded
from computeledger.errors import InputError, nearest, shown
from rntp.positions import Place
from rntp.pretraining import pretrain
from rntp.recipe import PretrainSpec, Recipe
from rntp.sampling import Sampling, sample_thoughts

#: Controls that are models trained another way.
TRAINED = ("ntp-equal-tokens", "ntp-equal-time", "mixed-sft")
#: Peak rate of a rival over that of the pretraining that made the model (assumption).
RATE_RATIO = 0.25
#: Thoughts sampled at a time for mixed supervised training.
_TOGETHER = 64


def token_budget(name: str, entries: Sequence[Entry]) -> float:
    """Count the tokens that a rival is trained on.

    Examples
    --------
    >>> update = Entry("r", "rl", "update", 3.0, step=1, tokens_by_kind={"trained": 600.0})
    >>> reference = Entry("r", "rl", "next-token reference", 1.0, step=1, tokens_by_kind={"trained": 1000.0})
    >>> [token_budget(name, [update, reference]) for name in TRAINED]
    [600.0, 3000.0, 600.0]
    """
    if name not in TRAINED:
        raise InputError(f"control {shown(name)}: {nearest(name, TRAINED)}")
    again = superseded(entries)
    rl = [e for e, done in zip(entries, again, strict=True) if e.workload == "rl" and not done]
    paid = [entry for entry in rl if entry.phase not in BESIDE_RL]
    if name == "ntp-equal-time":
        reference = next_token_reference(entries)
        if reference is None:
            raise InputError("ntp-equal-time: the ledger has no next-token reference to measure time by")
        return float(sum(entry.device_s for entry in paid) / reference["device_s_per_token"])
    tokens = sum(entry.tokens_by_kind.get("trained", 0.0) for entry in paid)
    if not tokens:
        raise InputError(f"{name}: the ledger counts no tokens of RL's updates")
    return tokens


def rival_spec(recipe: Recipe, tokens: float) -> PretrainSpec:
    """Plan the training of a rival.

    Examples
    --------
    >>> spec = rival_spec(Recipe(), 1e6)
    >>> spec.batch_sequences, spec.sequence_tokens, spec.steps
    (64, 544, 29)
    """
    before = recipe.pretrain or PretrainSpec(learning_rate=recipe.rl.learning_rate / RATE_RATIO)
    length = recipe.positions.context_tokens + recipe.positions.gold_tokens
    sequences = recipe.rl.prompts_per_step * recipe.rl.group_size
    steps = max(1, math.ceil(tokens / (sequences * length)))
    rate = RATE_RATIO * before.learning_rate
    return replace(
        before, steps=steps, batch_sequences=sequences, sequence_tokens=length, learning_rate=rate, save_steps=steps
    )


def mixed_rows(
    model: Any, plain: Iterator[Sequence[int]], places: Iterable[Place], sampling: Sampling
) -> Iterator[Sequence[int]]:
    """Alternate plain text with contexts, thoughts of a model, and what follows.

    Examples
    --------
    >>> from transformers import GPT2Config, GPT2LMHeadModel
    >>> model = GPT2LMHeadModel(GPT2Config(vocab_size=9, n_positions=16, n_embd=8, n_layer=1, n_head=2)).eval()
    >>> rows = mixed_rows(model, itertools.repeat([1, 2]), [Place((3,), (4, 5), "a", 1)], Sampling(7, 8, 2))
    >>> plain, thought = rows
    >>> plain, thought[:2], thought[-3:]
    ([1, 2], (3, 7), (8, 4, 5))
    """
    source = iter(places)
    turn = 0
    while some := list(itertools.islice(source, _TOGETHER)):
        one = replace(sampling, thoughts=1, seed=sampling.seed + turn)
        found = sample_thoughts(model, [place.context_ids for place in some], one)
        for place, thought in zip(some, found.rows, strict=True):
            text = next(plain, None)
            if text is None:
                return
            yield text
            yield (*place.context_ids, *thought, *place.gold_ids)
        turn += 1


def train_rival(
    model: Any, rows: Iterator[Sequence[int]], spec: PretrainSpec, folder: Path, told: Callable[[int, int], None]
) -> None:
    """Train a rival and keep it.

    Examples
    --------
    >>> import tempfile
    >>> from transformers import GPT2Config, GPT2LMHeadModel
    >>> model = GPT2LMHeadModel(GPT2Config(vocab_size=9, n_positions=16, n_embd=8, n_layer=1, n_head=2))
    >>> with tempfile.TemporaryDirectory() as name:
    ...     spec = PretrainSpec(steps=2, batch_sequences=2)
    ...     train_rival(model, itertools.repeat([1, 2, 3]), spec, Path(name) / "rival", lambda step, steps: None)
    ...     sorted(path.name for path in (Path(name) / "rival").glob("*.safetensors"))
    ['model.safetensors']
    """
    part = folder.with_name(f"{folder.name}.part")
    part.mkdir(parents=True, exist_ok=True)
    state = part / "state.pt"
    batches = iter(lambda: list(itertools.islice(rows, spec.batch_sequences)), [])
    with RunLedger(None, None, RunMachine(), workload="pretraining") as books:
        pretrain(model, batches, spec, state, books, lambda step, _said: told(step, spec.steps))
    state.unlink()
    model.save_pretrained(part)
    part.replace(folder)
