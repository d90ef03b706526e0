"""Plain next-token training of a small model: a fixed number of steps, the same ones after an interruption."""

from __future__ import annotations

import io
import itertools
import math
import os
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from computeledger.actuals.recording.run import RunLedger
from rntp.corpus import Chunk
from rntp.errors import TrainingError
from rntp.recipe import PretrainSpec

#: Batches whose sequences are sorted by length together, so that little is padded.
_SORTED = 16
_IGNORED = -100
#: Of AdamW, for short runs.
_BETAS = (0.9, 0.98)


def batches(read: Iterable[Chunk], sequences: int, seed: int = 0) -> Iterator[Sequence[Sequence[int]]]:
    """Put chunks of similar length together.

    Examples
    --------
    >>> some = [Chunk((1,) * length, (0,) * length, "", "") for length in (5, 1, 4, 2)]
    >>> sorted(sorted(map(len, batch)) for batch in batches(some, 2))
    [[1, 2], [4, 5]]
    """
    chance = random.Random(seed)  # noqa: S311 - a seeded order, no secret
    source = iter(read)
    while some := [chunk.ids for chunk in itertools.islice(source, sequences * _SORTED)]:
        some.sort(key=len)
        starts = range(0, len(some) - sequences + 1, sequences)
        yield from (some[start : start + sequences] for start in chance.sample(starts, len(starts)))


def learning_rate(spec: PretrainSpec, step: int) -> float:
    """Rate of an update: a linear rise, then a cosine down to a share of the peak.

    Examples
    --------
    >>> spec = PretrainSpec(steps=100, learning_rate=1.0, warmup_fraction=0.1, final_fraction=0.0)
    >>> learning_rate(spec, 4), round(learning_rate(spec, 50), 2)
    (0.5, 0.5)
    """
    rise = min(1.0, (step + 1) / max(1.0, spec.warmup_fraction * spec.steps))
    wave = (1 + math.cos(math.pi * step / spec.steps)) / 2
    return spec.learning_rate * (rise if rise < 1.0 else spec.final_fraction + (1 - spec.final_fraction) * wave)


def next_token_loss(model: Any, rows: Sequence[Sequence[int]]) -> torch.Tensor:
    """Mean loss of the tokens of a batch, each given those before it.

    Examples
    --------
    >>> from transformers import GPT2Config, GPT2LMHeadModel
    >>> shape = {"vocab_size": 9, "n_positions": 16, "n_embd": 8, "n_layer": 1, "n_head": 2}
    >>> model = GPT2LMHeadModel(GPT2Config(**shape, bos_token_id=0, eos_token_id=0))
    >>> next_token_loss(model, [[1, 2, 3], [4, 5]]).item() > 0
    True
    """
    width = max(map(len, rows))
    ids = torch.zeros(len(rows), width, dtype=torch.long)
    labels = torch.full_like(ids, _IGNORED)
    for place, row in enumerate(rows):
        ids[place, : len(row)] = labels[place, : len(row)] = torch.tensor(row)
    ids, labels = ids.to(model.device), labels.to(model.device)
    logits = model(input_ids=ids[:, :-1], use_cache=False).logits.float()
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels[:, 1:].flatten(), ignore_index=_IGNORED)


def pretrain(
    model: Any,
    read: Iterable[Sequence[Sequence[int]]],
    spec: PretrainSpec,
    checkpoint: Path,
    books: RunLedger,
    progress: Callable[[int, dict[str, float]], None] = lambda _step, _metrics: None,
) -> Any:
    """Train by next-token prediction, from the last checkpoint on where there is one.

    Examples
    --------
    >>> import tempfile
    >>> from transformers import GPT2Config, GPT2LMHeadModel
    >>> shape = {"vocab_size": 9, "n_positions": 16, "n_embd": 8, "n_layer": 1, "n_head": 2}
    >>> model = GPT2LMHeadModel(GPT2Config(**shape, bos_token_id=0, eos_token_id=0))
    >>> losses = []
    >>> with tempfile.TemporaryDirectory() as folder, RunLedger(None, workload="pretraining") as books:
    ...     spec = PretrainSpec(steps=3, learning_rate=1e-2)
    ...     told = lambda step, metrics: losses.append(metrics["loss"])
    ...     _ = pretrain(model, itertools.repeat([[1, 2, 3, 4]]), spec, Path(folder) / "state.pt", books, told)
    >>> losses[0] > losses[-1]
    True
    """
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.0, betas=_BETAS, weight_decay=spec.weight_decay)
    done = _resume(model, optimizer, checkpoint)
    saved = done
    model.train()
    for step, rows in enumerate(itertools.islice(read, spec.steps)):
        if step < done:
            continue
        with books.phase("forward-backward", step) as book:
            loss = next_token_loss(model, rows)
            value = loss.item()
            if not math.isfinite(value):
                raise TrainingError(_lost(f"the loss is {value} at step {step + 1} of pretraining", checkpoint, saved))
            loss.backward()  # type: ignore[no-untyped-call]  # torch types it in part
            book.train(np.array([len(row) - 1 for row in rows]))
        with books.phase("optimizer", step):
            for group in optimizer.param_groups:
                group["lr"] = learning_rate(spec, step)
            torch.nn.utils.clip_grad_norm_(model.parameters(), spec.max_grad_norm)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        if (step + 1) % spec.save_steps == 0 or step + 1 == spec.steps:
            with books.phase("checkpoint", step):
                state = {"step": step + 1, "model": model.state_dict(), "optimizer": optimizer.state_dict()}
                _save(state, checkpoint, saved)
            saved = step + 1
        progress(step + 1, {"loss": value})
    if saved < spec.steps:
        raise TrainingError(_lost(f"the corpus gave {saved} batches of {spec.steps}", checkpoint, saved))
    return model


def _resume(model: Any, optimizer: torch.optim.Optimizer, checkpoint: Path) -> int:
    """Take weights and optimizer from the checkpoint; how many updates they have behind them."""
    if not checkpoint.exists():
        return 0
    state = torch.load(checkpoint, map_location=model.device, weights_only=True)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    return int(state["step"])


def _save(state: dict[str, Any], checkpoint: Path, saved: int) -> None:
    """Write a checkpoint beside the last one, and put it in its place once it is whole."""
    whole = io.BytesIO()
    torch.save(state, whole)
    beside = checkpoint.with_suffix(".part")
    try:
        with beside.open("wb") as file:
            file.write(whole.getbuffer())
            file.flush()
            os.fsync(file.fileno())
        beside.replace(checkpoint)
    except OSError as error:
        beside.unlink(missing_ok=True)
        reason = (error.strerror or "cannot be written").lower()
        raise TrainingError(_lost(f"{checkpoint.parent}: {reason}", checkpoint, saved)) from None


def _lost(problem: str, checkpoint: Path, saved: int) -> str:
    kept = f"the checkpoint of step {saved} is whole ({checkpoint})" if saved else "no checkpoint had been written"
    return f"{problem}; {kept}"
