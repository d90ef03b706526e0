"""A judge that is a local model: its score comes from the probability of the scale's words, or from what it writes."""

from __future__ import annotations

import inspect
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from computeledger.actuals.recording.work import Work, decode_work, forward_work
from computeledger.errors import InputError, shown
from rntp.judges.items import VERDICT, Item, Judgement, asked, read_verdict, without
from rntp.models import counted_by, load_model
from rntp.recipe import JudgeSpec, ThoughtSpec
from rntp.scoring import pad_of, padded

#: Probability of all words of a scale together below which a model has not understood what it is asked: an assumption.
LEAST_PROBABILITY = 0.01
#: Characters of what is asked that decide how a verdict behind it is cut into tokens.
_TAIL = 24

Precision = Literal["float32", "bfloat16"]


def folder_of(spec: JudgeSpec, folder: Path) -> Path:
    """Find the folder of a judge's model: beside the recipe, or where the command is given.

    Examples
    --------
    >>> folder_of(JudgeSpec("nowhere"), Path())
    Traceback (most recent call last):
    computeledger.errors.InputError: judge 'nowhere': no folder with a config.json, beside the recipe or in ...
    """
    for place in (folder / spec.model, Path(spec.model)):
        if (place / "config.json").is_file():
            return place
    raise InputError(
        f"judge {shown(spec.model)}: no folder with a config.json, beside the recipe or in the current folder"
    )


class LocalJudge:
    """Asks a model of this machine; greedy, so that the same answer has the same score.

    Examples
    --------
    >>> LocalJudge(JudgeSpec("nowhere"), Path())
    Traceback (most recent call last):
    computeledger.errors.InputError: judge 'nowhere': no folder with a config.json, beside the recipe or in ...
    """

    def __init__(
        self, spec: JudgeSpec, folder: Path, device: torch.device | str = "cpu", precision: Precision = "float32"
    ) -> None:
        self._spec = spec
        try:
            model, self._tokenizer = load_model(folder_of(spec, folder), ThoughtSpec(), precision)
        except InputError as error:
            raise InputError(str(error).replace("model:", f"judge {shown(spec.model)}:", 1)) from None
        self._model: Any = model.to(device).eval().requires_grad_(False)
        self._counted = counted_by(self._model, "judge")
        self._words = verdict_ids(self._tokenizer, spec) if spec.by_probability else ()
        self._clean = without(self._tokenizer.all_special_tokens)
        self._context = getattr(self._model.config, "max_position_embeddings", None) or math.inf
        keeps = "logits_to_keep" in inspect.signature(self._model.forward).parameters
        self._last = {"logits_to_keep": 1} if keeps else {}
        self._work = Work(0.0, 0.0)

    def take_work(self) -> Work:
        """What has been computed since this was last asked."""
        done, self._work = self._work, Work(0.0, 0.0)
        return done

    def judgements(self, items: Sequence[Item]) -> list[Judgement]:
        """Judge each answer; what is too long for the model has no verdict."""
        rows = [prompt_ids(self._tokenizer, self._spec, asked(item, self._spec, self._clean)) for item in items]
        room = self._context - (0 if self._spec.by_probability else self._spec.verdict_tokens)
        out = [Judgement(None, f"{len(ids)} tokens are too long for the judge", False, len(ids)) for ids in rows]
        fits = [number for number, ids in enumerate(rows) if len(ids) <= room]
        for start in range(0, len(fits), self._spec.batch):
            part = fits[start : start + self._spec.batch]
            for number, one in zip(part, self._judged([rows[number] for number in part]), strict=True):
                out[number] = one
        return out

    @torch.no_grad()
    def _judged(self, rows: list[list[int]]) -> list[Judgement]:
        """Judgements of one pass."""
        ids, mask = padded(rows, self._model.device, left=True, pad_id=pad_of(self._model))
        lengths = np.array([len(row) for row in rows], dtype=float)
        if self._counted is not None:
            self._add(forward_work(self._counted, lengths, head_tokens=1.0))
        if not self._spec.by_probability:
            return self._replies(ids, mask, lengths)
        positions = (mask.cumsum(dim=1) - 1).clamp(min=0)
        logits = self._model(input_ids=ids, attention_mask=mask, position_ids=positions, **self._last).logits[:, -1]
        chances = torch.softmax(logits.float(), dim=-1)[:, list(self._words)].double().cpu().numpy()
        return [self._weighed(row, len(given)) for row, given in zip(chances, rows, strict=True)]

    def _weighed(self, chances: NDArray[np.float64], tokens: int) -> Judgement:
        """The mean of the scale by the probabilities of its words."""
        total = float(chances.sum())
        if not total >= LEAST_PROBABILITY:  # no number is none either
            return Judgement(None, f"the scale's words have a probability of {total:.2g} together", False, tokens)
        levels = np.linspace(0.0, 1.0, len(chances))
        return Judgement(min(float(chances @ levels) / total, 1.0), "", False, tokens)

    def _replies(self, ids: torch.Tensor, mask: torch.Tensor, lengths: NDArray[np.float64]) -> list[Judgement]:
        """Verdicts that the model writes."""
        made = self._model.generate(
            input_ids=ids, attention_mask=mask, max_new_tokens=self._spec.verdict_tokens, do_sample=False,
            temperature=None, top_p=None, top_k=None, pad_token_id=pad_of(self._model),
        )[:, ids.shape[1] :].tolist()  # fmt: skip
        ends = {self._tokenizer.eos_token_id, self._tokenizer.pad_token_id}
        rows = [row[: next((n for n, token in enumerate(row) if token in ends), len(row))] for row in made]
        if self._counted is not None:
            written = np.array([len(row) for row in rows], dtype=float)
            self._add(decode_work(self._counted, np.maximum(written - 1, 0.0), lengths))
        texts = [self._tokenizer.decode(row, skip_special_tokens=False) for row in rows]
        return [
            read_verdict(text, self._spec.scale).counted(int(length), len(row))
            for text, length, row in zip(texts, lengths, rows, strict=True)
        ]

    def _add(self, done: Work) -> None:
        self._work = Work(self._work.flop + done.flop, self._work.executed_flop + done.executed_flop)


def prompt_ids(tokenizer: Any, spec: JudgeSpec, prompt: str) -> list[int]:
    """Write what a judge is asked in tokens, up to where its verdict stands.

    Examples
    --------
    >>> class Letters:
    ...     bos_token_id = chat_template = None
    ...     def __call__(self, text, **options):
    ...         return {"input_ids": [ord(one) for one in text]}
    >>> bytes(prompt_ids(Letters(), JudgeSpec("mine"), "right?")).decode().splitlines()
    ['right?', '', 'Verdict:']
    """
    lead = VERDICT if spec.by_probability else ""
    if getattr(tokenizer, "chat_template", None):
        messages = [{"role": "user", "content": prompt}]
        text = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
        return list(tokenizer(f"{text}{lead}", add_special_tokens=False)["input_ids"])
    begin = [] if tokenizer.bos_token_id is None else [tokenizer.bos_token_id]
    text = prompt if spec.prompt else f"{prompt}\n\n{VERDICT}"
    return [*begin, *tokenizer(text, add_special_tokens=False)["input_ids"]]


def verdict_ids(tokenizer: Any, spec: JudgeSpec) -> tuple[int, ...]:
    """Find the token of each word of a scale, as it follows what is asked.

    Examples
    --------
    >>> class Letters:
    ...     unk_token_id = chat_template = None
    ...     def __call__(self, text, **options):
    ...         return {"input_ids": [ord(one) for one in text]}
    >>> verdict_ids(Letters(), JudgeSpec("mine", prompt="is {answer} right? "))
    (110, 121)
    """
    is_plain = bool(spec.prompt) and not getattr(tokenizer, "chat_template", None)
    before = (spec.prompt if is_plain else VERDICT)[-_TAIL:]
    for blank in (" ", ""):
        found = [_next(tokenizer, before, f"{blank}{word}") for word in spec.scale]
        if None not in found and len(set(found)) == len(found) and tokenizer.unk_token_id not in found:
            return tuple(one for one in found if one is not None)
    raise InputError(
        f"judge {shown(spec.model)}: its tokenizer does not tell the words of the scale {list(spec.scale)} apart by "
        "their first token: choose others, or read = 'reply'"
    )


def _next(tokenizer: Any, before: str, word: str) -> int | None:
    """The token with which a word behind a text begins; None where the text's own tokens change by it."""
    alone, both = (list(tokenizer(one, add_special_tokens=False)["input_ids"]) for one in (before, before + word))
    return both[len(alone)] if both[: len(alone)] == alone and len(both) > len(alone) else None
