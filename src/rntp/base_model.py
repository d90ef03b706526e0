"""The model before RL, where the recipe makes it: from scratch, pretrained into the folder of the run."""

from __future__ import annotations

import contextlib
import itertools
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from transformers import AutoTokenizer

from computeledger.actuals.recording.run import RunLedger, RunMachine
from computeledger.errors import InputError
from rntp.corpus import Chunk, Document, chunks, split, stream
from rntp.models import counted_by, make_model, make_tokenizer
from rntp.pretraining import batches, pretrain
from rntp.recipe import CorpusSpec, PretrainSpec, Recipe
from rntp.run_folder import BASE, LEDGER

#: Streams that a seed gives: documents of pretraining, of RL, and of its next-token term.
PRETRAINING, PLACES, TEXT = range(3)
STREAMS = 3


def corpus_of(recipe: Recipe) -> CorpusSpec:
    """Give the corpus of a recipe that must have one.

    Examples
    --------
    >>> corpus_of(Recipe())
    Traceback (most recent call last):
    computeledger.errors.InputError: [corpus] is needed: there is no text to read
    """
    if recipe.corpus is None:
        raise InputError("[corpus] is needed: there is no text to read")
    return recipe.corpus


def read_documents(recipe: Recipe, number: int) -> Iterator[Document]:
    """Read the training side of the corpus, without end, in an order that each use has for itself.

    Examples
    --------
    >>> from rntp.recipe import CorpusSpec
    >>> some = Recipe(corpus=CorpusSpec("generator", ("python-library",), options={"pattern": "json/*.py"}))
    >>> next(read_documents(some, PLACES)).kind
    'python'
    """
    return stream(corpus_of(recipe), recipe.folder, recipe.seed * STREAMS + number)


def make_base(
    recipe: Recipe,
    folder: Path,
    machine: RunMachine,
    device: torch.device,
    told: Callable[[int, dict[str, float]], None],
) -> None:
    """Make a model and pretrain it, or go on with that; nothing is done where it is there.

    Examples
    --------
    >>> make_base(Recipe(), Path("nowhere"), RunMachine(), torch.device("cpu"), print)
    Traceback (most recent call last):
    computeledger.errors.InputError: a model from scratch needs [pretrain]
    """
    spec = recipe.pretrain
    if spec is None:
        raise InputError("a model from scratch needs [pretrain]")
    if (folder / BASE).exists():
        return
    part = folder / f"{BASE}.part"
    tokenizer = base_tokenizer(recipe, folder)
    model = make_model(recipe.model, tokenizer, recipe.seed).to(device)
    books = RunLedger(folder / LEDGER, counted_by(model, recipe.name), machine, run=recipe.name, workload="pretraining")
    with contextlib.closing(books):
        rows = batches(_chunks(recipe, spec, tokenizer), spec.batch_sequences, recipe.seed)
        pretrain(model, rows, spec, part / "state.pt", books, told)
        with books.phase("checkpoint", spec.steps - 1):
            model.save_pretrained(part)
    (part / "state.pt").unlink()
    part.replace(folder / BASE)


def _chunks(recipe: Recipe, spec: PretrainSpec, tokenizer: Any) -> Iterator[Chunk]:
    read = chunks(read_documents(recipe, PRETRAINING), tokenizer, spec.sequence_tokens)
    return (chunk for chunk in read if len(chunk.ids) > 1)


def base_tokenizer(recipe: Recipe, folder: Path) -> Any:
    """Give the tokenizer of a model from scratch: that of a pretraining that has begun, or one learnt now.

    Examples
    --------
    >>> base_tokenizer(Recipe(), Path("nowhere"))
    Traceback (most recent call last):
    computeledger.errors.InputError: [corpus] is needed: there is no text to read
    """
    part = folder / (BASE if (folder / BASE).exists() else f"{BASE}.part")
    if not part.exists():
        once = split(corpus_of(recipe), recipe.folder, recipe.seed * STREAMS)
        texts = (one.text for one in itertools.islice(once, recipe.model.tokenizer_documents))
        made = make_tokenizer(recipe.model, recipe.thought, texts)
        beside = part.with_suffix(".new")
        shutil.rmtree(beside, ignore_errors=True)
        made.save_pretrained(beside)
        beside.replace(part)
    return AutoTokenizer.from_pretrained(part, local_files_only=True)
