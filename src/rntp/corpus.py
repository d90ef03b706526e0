"""Documents to train on: text files, JSONL, Parquet, ``datasets`` or a generator; cut into chunks of tokens."""

from __future__ import annotations

import glob
import hashlib
import itertools
import os
import random
import sysconfig
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from computeledger.errors import ComputeLedgerError, InputError, nearest, shown
from computeledger.files import open_user_file, read_json_lines, read_user_text
from computeledger.units import MIB
from rntp.plugins import CORPORA, check_call, resolve, said
from rntp.recipe import CorpusSpec

#: Most bytes of a text that is one document.
MOST_TEXT_BYTES = int(256 * MIB)
#: Rows of Parquet that are held at a time.
_PARQUET_ROWS = 1000


@dataclass(frozen=True, slots=True)
class Document:
    """A text."""

    text: str
    id: str
    kind: str = ""
    marks: tuple[int, ...] = ()

    @property
    def draw(self) -> float:
        """Place of its text between 0 and 1, by hash: the same in every run and on every machine [-]."""
        return int.from_bytes(hashlib.sha256(self.text.encode()).digest()[:8]) / 2**64


@dataclass(frozen=True, slots=True)
class Chunk:
    """A stretch of a document in tokens."""

    ids: tuple[int, ...]
    starts: tuple[int, ...]
    text: str
    document: str
    kind: str = ""
    marks: tuple[int, ...] = ()


#: Documents among which the next one is drawn.
_SHUFFLED = 1000
#: A source of documents without end or with one: takes a seed and options.
Generator = Callable[..., Iterable[Document]]
GENERATORS: dict[str, Generator] = {}


def register_generator(name: str) -> Callable[[Generator], Generator]:
    """Offer a function that makes documents under a name.

    Examples
    --------
    >>> @register_generator("counting")
    ... def counting(seed):
    ...     return (Document(str(number), str(number)) for number in itertools.count(seed))
    >>> spec = CorpusSpec("generator", ("counting",), documents=3, held_out_fraction=0.0)
    >>> [one.text for one in documents(spec, seed=7)]
    ['7', '8', '9']
    """

    def keep(function: Generator) -> Generator:
        GENERATORS[name] = function
        return function

    return keep


@register_generator("python-library")
def python_library(seed: int, pattern: str = "**/*.py") -> Iterator[Document]:
    """Sources of the Python standard library that runs this.

    Examples
    --------
    >>> next(iter(python_library(0, "dataclasses.py"))).id
    'dataclasses.py'
    """
    folder = Path(sysconfig.get_path("stdlib"))
    names = [one.relative_to(folder) for one in folder.glob(pattern) if "site-packages" not in one.parts]
    names = sorted(one for one in names if not {"test", "tests"} & set(one.parts))
    for name in random.Random(seed).sample(names, len(names)):  # noqa: S311 - a seeded order, no secret
        try:
            yield Document((folder / name).read_text("utf-8"), name.as_posix(), "python")
        except UnicodeDecodeError:  # a few sources are there to be in another encoding
            yield Document((folder / name).read_text("latin-1"), name.as_posix(), "python")


def documents(spec: CorpusSpec, folder: Path = Path(), seed: int = 0) -> Iterator[Document]:
    """Read the documents of a corpus, in its order.

    Examples
    --------
    >>> list(documents(CorpusSpec("text", ("nothing-here-*.txt",))))
    Traceback (most recent call last):
    computeledger.errors.InputError: corpus: no file is named 'nothing-here-*.txt'
    """
    read = (one for one in _READERS[spec.kind](spec, folder, seed) if one.text.strip())
    some = itertools.islice(read, spec.documents or None)
    first = next(some, None)
    if first is None:
        raise InputError(f"corpus: no document with text in {', '.join(shown(one) for one in spec.source)}")
    yield first
    yield from some


def split(spec: CorpusSpec, folder: Path = Path(), seed: int = 0, *, held_out: bool = False) -> Iterator[Document]:
    """Read one side of a corpus: what is trained on, or what never is.

    Examples
    --------
    >>> spec = CorpusSpec("generator", ("python-library",), options={"pattern": "json/*.py"}, held_out_fraction=0.5)
    >>> sides = [{one.id for one in split(spec, held_out=side)} for side in (False, True)]
    >>> len(sides[0] & sides[1]), len(sides[0] | sides[1])
    (0, 5)
    """
    found = False
    for one in documents(spec, folder, seed):
        if (one.draw < spec.held_out_fraction) == held_out:
            found = True
            yield one
    if not found:
        side = "held-out" if held_out else "training"
        raise InputError(
            f"corpus: no {side} document at held_out_fraction {spec.held_out_fraction:g}: give more documents"
        )


def stream(spec: CorpusSpec, folder: Path = Path(), seed: int = 0, *, held_out: bool = False) -> Iterator[Document]:
    """Read one side of a corpus again and again, each time in another order.

    Examples
    --------
    >>> spec = CorpusSpec("generator", ("python-library",), options={"pattern": "json/*.py"}, held_out_fraction=0.0)
    >>> len({one.id for one in itertools.islice(stream(spec), 5)})
    5
    """
    for turn in itertools.count():
        read = split(spec, folder, seed + turn, held_out=held_out)
        if spec.kind == "generator":
            yield from read
            continue
        chance = random.Random(f"{seed}/{turn}")  # noqa: S311 - a seeded order, no secret
        waiting: list[Document] = []
        for one in read:
            waiting.append(one)
            if len(waiting) >= _SHUFFLED:
                yield waiting.pop(chance.randrange(len(waiting)))
        yield from chance.sample(waiting, len(waiting))


def chunks(read: Iterable[Document], tokenizer: Any, tokens: int) -> Iterator[Chunk]:
    """Cut documents into chunks of tokens that do not overlap, a document's begin and end marked where they can be.

    Examples
    --------
    >>> class Letters:
    ...     bos_token_id = eos_token_id = None
    ...     def __call__(self, text, **options):
    ...         spans = [(place, place + 1) for place in range(len(text))]
    ...         return {"input_ids": [ord(one) for one in text], "offset_mapping": spans}
    >>> [len(one.ids) for one in chunks([Document("abcdefg", "a")], Letters(), 3)]
    [3, 3, 1]
    """
    for document in read:
        made = tokenizer(document.text, return_offsets_mapping=True, add_special_tokens=False, verbose=False)
        ids, starts = list(made["input_ids"]), [start for start, _ in made["offset_mapping"]]
        if tokenizer.bos_token_id is not None:
            ids, starts = [tokenizer.bos_token_id, *ids], [0, *starts]
        if tokenizer.eos_token_id is not None:
            ids, starts = [*ids, tokenizer.eos_token_id], [*starts, len(document.text)]
        marks = [bisect_left(starts, mark) for mark in document.marks]
        for begin in range(0, len(ids), tokens):
            end = min(begin + tokens, len(ids))
            yield Chunk(
                tuple(ids[begin:end]),
                tuple(starts[begin:end]),
                document.text,
                document.id,
                document.kind,
                tuple(mark - begin for mark in marks if begin < mark < end),
            )


def _paths(spec: CorpusSpec, folder: Path) -> Iterator[Path]:
    for source in spec.source:
        given = folder / Path(source).expanduser()
        found = sorted(glob.glob(str(given), recursive=True)) if glob.has_magic(source) else [str(given)]  # noqa: PTH207 - absolute patterns too
        files = [Path(one) for one in found if Path(one).is_file()]
        if not files:
            raise InputError(f"corpus: no file is named {shown(source)}")
        yield from files


def _named(path: Path, folder: Path) -> str:
    """Name of a file, relative to the recipe: two files of one base name are two documents."""
    return Path(os.path.relpath(path, folder)).as_posix()


def _text(spec: CorpusSpec, folder: Path, _seed: int) -> Iterator[Document]:
    for path in _paths(spec, folder):
        try:
            text = read_user_text(path, MOST_TEXT_BYTES)
        except InputError as error:
            raise InputError(f"corpus: {error}") from None
        yield Document(text, _named(path, folder), path.suffix.lstrip("."))


def _row(spec: CorpusSpec, row: Any, name: str) -> Document:
    """A document of a row with a text, and perhaps ``id``, ``kind`` and ``marks``."""
    text = row.get(spec.text_field) if isinstance(row, Mapping) else None
    if not isinstance(text, str):
        columns = list(row) if isinstance(row, Mapping) else []
        raise InputError(f"corpus: {name}: no text under {shown(spec.text_field)}: {nearest(spec.text_field, columns)}")
    marks = row.get("marks") or ()
    if not isinstance(marks, Sequence) or not all(isinstance(one, int | float) and abs(one) < 2**53 for one in marks):
        raise InputError(f"corpus: {name}: marks {shown(marks)}: places in the text are needed")
    return Document(text, str(row.get("id") or name), str(row.get("kind") or ""), tuple(int(one) for one in marks))


def _jsonl(spec: CorpusSpec, folder: Path, _seed: int) -> Iterator[Document]:
    for path in _paths(spec, folder):
        rows = read_json_lines(path)
        while True:
            try:
                number, row = next(rows)
            except StopIteration:
                break
            except InputError as error:
                raise InputError(f"corpus: {error}") from None
            yield _row(spec, row, f"{_named(path, folder)}:{number}")


def _parquet(spec: CorpusSpec, folder: Path, _seed: int) -> Iterator[Document]:
    import pyarrow
    import pyarrow.parquet

    for path in _paths(spec, folder):
        number = 0
        try:
            with open_user_file(path) as stream, pyarrow.parquet.ParquetFile(stream) as file:
                for batch in file.iter_batches(batch_size=_PARQUET_ROWS):
                    for row in batch.to_pylist():
                        number += 1
                        yield _row(spec, row, f"{_named(path, folder)}:{number}")
        except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
            raise InputError(f"corpus: {path}: {(str(error).splitlines() or ['cannot be read'])[0]}") from None


def _datasets(spec: CorpusSpec, folder: Path, _seed: int) -> Iterator[Document]:
    import datasets

    for source in spec.source:
        saved = folder / source
        if saved.is_dir():
            rows = datasets.load_from_disk(str(saved))
            if isinstance(rows, datasets.DatasetDict):
                if spec.split not in rows:
                    raise InputError(f"corpus: {source}: no split {shown(spec.split)}: {nearest(spec.split, rows)}")
                rows = rows[spec.split]
        else:
            try:
                rows = datasets.load_dataset(source, spec.subset or None, split=spec.split, streaming=True)
            except (OSError, ValueError, RuntimeError) as error:
                first = str(error).splitlines()[0] if str(error) else type(error).__name__
                raise InputError(f"corpus: {shown(source)} is no saved folder, and cannot be loaded: {first}") from None
        for number, row in enumerate(rows):
            yield _row(spec, row, f"{source}:{number}")


def _generated(spec: CorpusSpec, folder: Path, seed: int) -> Iterator[Document]:
    for source in spec.source:
        try:
            make = resolve(CORPORA, source, folder, GENERATORS)
            check_call(CORPORA, source, make, seed=seed, **spec.options)
        except InputError as error:
            raise InputError(f"corpus: {error}") from None
        try:
            yield from make(seed=seed, **spec.options)
        except ComputeLedgerError:
            raise
        except Exception as error:  # whatever somebody else's code does
            raise InputError(f"corpus: generator {shown(source)}: {said(error)}") from error


_READERS: dict[str, Callable[[CorpusSpec, Path, int], Iterable[Document]]] = {
    "text": _text,
    "jsonl": _jsonl,
    "parquet": _parquet,
    "datasets": _datasets,
    "generator": _generated,
}
