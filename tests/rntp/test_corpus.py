"""Documents from every kind of source, cut into chunks whose places in the text are known; rules that choose places."""

from __future__ import annotations

import itertools
import json
import re
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from computeledger.errors import InputError
from rntp.base_model import read_documents
from rntp.corpus import Chunk, Document, chunks, documents, split, stream
from rntp.lazy import Renewed
from rntp.mixture import mixed_rows
from rntp.models import make_tokenizer
from rntp.positions import RULE_FUNCTIONS, Place, place_at, places, positions
from rntp.recipe import CorpusSpec, ModelSpec, PositionSpec, Recipe, ThoughtSpec

TEXTS = ["One sentence here. Another one there! A third?", "Nothing ends"]
ROWS = [{"text": text, "id": f"n{place}", "kind": "k", "marks": [4]} for place, text in enumerate(TEXTS)]


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """The same two texts as files, JSONL, Parquet and a saved data set."""
    import datasets

    for place, text in enumerate(TEXTS):
        (tmp_path / f"{place}.txt").write_text(text)
    (tmp_path / "a.jsonl").write_text("\n".join(json.dumps(row) for row in ROWS))
    pyarrow.parquet.write_table(pa.Table.from_pylist(ROWS), tmp_path / "a.parquet")
    datasets.disable_progress_bars()
    datasets.DatasetDict({"train": datasets.Dataset.from_list(ROWS)}).save_to_disk(str(tmp_path / "saved"))
    (tmp_path / "mine.py").write_text(
        "from __future__ import annotations\nfrom dataclasses import dataclass\nfrom rntp.corpus import Document\n"
        "@dataclass(frozen=True)\nclass Kept:\n    a: int\n"
        "def texts(seed, one='x'):\n    return [Document(one * 3, 'a'), Document('  ', 'b')]\n"
    )
    return tmp_path


@pytest.mark.parametrize(
    ("kind", "source"), [("text", "*.txt"), ("jsonl", "a.jsonl"), ("parquet", "a.parquet"), ("datasets", "saved")]
)
def test_every_kind_of_source_gives_the_same_texts(library: Path, kind: str, source: str) -> None:
    found = list(documents(CorpusSpec(kind, (source,)), library))
    assert [one.text for one in found] == TEXTS
    if kind != "text":
        assert [(one.id, one.kind, one.marks) for one in found] == [("n0", "k", (4,)), ("n1", "k", (4,))]


def test_files_of_one_base_name_are_documents_of_their_own(tmp_path: Path) -> None:
    for place in range(8):
        package = tmp_path / "recipe" / f"package{place}"
        package.mkdir(parents=True)
        (package / "__init__.py").write_text(f"value = {place}")
        (package / "rows.jsonl").write_text(json.dumps({"text": f"row {place}"}))
    for spec in (CorpusSpec("text", ("**/*.py",)), CorpusSpec("jsonl", ("**/*.jsonl",))):
        names = [one.id for one in documents(spec, tmp_path / "recipe")]
        assert len(set(names)) == 8 and names[0].startswith("package0/")
    beside = next(documents(CorpusSpec("text", ("../package3/__init__.py",)), tmp_path / "recipe" / "package0"))
    assert beside.id == "../package3/__init__.py"


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (CorpusSpec("text", ("no-*.txt",)), "no file is named 'no-*.txt'"),
        (CorpusSpec("text", ("a.parquet",)), "not UTF-8 text"),
        (CorpusSpec("jsonl", ("0.txt",)), "0.txt:1: not valid JSON"),
        (CorpusSpec("jsonl", ("a.jsonl",), "txt"), "no text under 'txt': did you mean 'text'?"),
        (CorpusSpec("parquet", ("0.txt",)), "0.txt: "),
        (CorpusSpec("datasets", ("saved",), split="tran"), "no split 'tran': did you mean 'train'?"),
        (CorpusSpec("generator", ("must",)), "unknown generator 'must'"),
        (CorpusSpec("generator", ("mine.py:text",)), "no function 'text': did you mean 'texts'?"),
        (CorpusSpec("generator", ("other.py:texts",)), "no file is named 'other.py'"),
        (CorpusSpec("generator", ("mine.py:texts",), options={"two": 2}), "unexpected keyword argument 'two'"),
        (CorpusSpec("generator", ("mine.py:texts",), options={"one": " "}), "no document with text"),
    ],
)
def test_a_corpus_that_cannot_be_read_says_why(library: Path, spec: CorpusSpec, message: str) -> None:
    with pytest.raises(InputError) as refused:
        list(documents(spec, library))
    assert message in str(refused.value)


def test_a_text_stays_on_its_side_and_a_stream_repeats_itself(library: Path) -> None:
    spec = CorpusSpec("generator", ("python-library",), options={"pattern": "email/*.py"}, held_out_fraction=0.3)
    sides = [{one.text for one in split(spec, seed=seed, held_out=side)} for seed in (0, 1) for side in (False, True)]
    assert sides[0] == sides[2] and sides[1] == sides[3] and not sides[0] & sides[1] and sides[1]
    files = CorpusSpec("text", ("*.txt",), held_out_fraction=0.0)
    turns = [[one.id for one in itertools.islice(stream(files, library, seed), 20)] for seed in (0, 0, 1)]
    assert turns[0] == turns[1] != turns[2]
    assert all({"0.txt", "1.txt"} == set(turns[0][start : start + 2]) for start in range(0, 20, 2))
    with pytest.raises(InputError, match="no held-out document"):
        next(split(files, library, held_out=True))


@pytest.mark.parametrize("kind", ["bpe", "word"])
def test_chunks_know_where_their_tokens_stand(kind: str) -> None:
    tokenizer = make_tokenizer(ModelSpec(tokenizer=kind, vocabulary=300), ThoughtSpec(), TEXTS)
    mark = TEXTS[0].index(" Another")
    found = list(chunks([Document(TEXTS[0], "a", "k", (mark,))], tokenizer, 5))
    assert all(len(one.ids) == 5 for one in found[:-1])
    assert found[0].ids[0] == tokenizer.bos_token_id and found[-1].ids[-1] == tokenizer.eos_token_id
    (chunk,) = chunks([Document(TEXTS[0], "a", "k", (mark,))], tokenizer, 500)
    (place,) = chunk.marks
    assert tokenizer.decode(list(chunk.ids[place:-1])).strip() == TEXTS[0][mark:].strip()
    assert chunk.starts[place] in (mark, mark + 1)


def chunk_of(length: int) -> Chunk:
    """A chunk of one letter per token, with a sentence every seven."""
    text = "".join(". " if place % 7 == 5 else "a" for place in range(length))[:length]
    return Chunk(tuple(range(length)), tuple(range(length)), text, "d", "k", (length // 2,))


@given(
    rule=st.sampled_from(sorted(RULE_FUNCTIONS)), length=st.integers(1, 80), count=st.integers(1, 5),
    seed=st.integers(0, 9),
)  # fmt: skip
def test_rules_choose_places_with_enough_on_both_sides(rule: str, length: int, count: int, seed: int) -> None:
    spec = PositionSpec(rule, per_chunk=count, stride=5, context_tokens=20, gold_tokens=6, high=1.0)
    measured = np.random.default_rng(seed).random(length)
    chosen = [positions(chunk_of(length), spec, np.random.default_rng(seed), measured).tolist() for _ in range(2)]
    assert chosen[0] == chosen[1] == sorted(set(chosen[0])) and len(chosen[0]) <= count
    for position in chosen[0]:
        place = place_at(chunk_of(length), position, spec)
        assert spec.min_context_tokens <= len(place.context_ids) <= 20 and 2 <= len(place.gold_ids) <= 6
        assert place.context_ids[-1] + 1 == place.gold_ids[0] == position
        if rule == "sentence":
            assert re.search(r"[.]$", chunk_of(length).text[:position])
        if rule == "marked":
            assert position == length // 2


def test_bands_choose_by_what_was_measured() -> None:
    chunk = chunk_of(40)
    entropy = np.arange(40.0)
    band = PositionSpec("entropy-band", per_chunk=40, low=0.5, high=0.75)
    found = positions(chunk, band, np.random.default_rng(0), entropy)
    assert found.min() >= 8 + 0.5 * 30 and found.max() <= 8 + 0.75 * 30
    spread = np.full(40, np.nan)
    spread[[10, 20, 30]] = [0.05, 0.5, 5.0]
    learnable = PositionSpec("learnability-band", per_chunk=9, low=0.1, high=1.0)
    assert positions(chunk, learnable, np.random.default_rng(0), spread).tolist() == [20]
    with pytest.raises(InputError, match="needs the spread of each token"):
        positions(chunk, learnable, np.random.default_rng(0))


def test_kinds_are_kept_apart_and_a_corpus_without_places_is_refused() -> None:
    spec = PositionSpec("several", per_chunk=2, kinds=("k",))
    other = Chunk(chunk_of(40).ids, chunk_of(40).starts, "", "e", "other")
    found: list[Place] = list(places([other, chunk_of(40), other], spec))
    assert [one.document for one in found] == ["d", "d"] and found[0].kind == "k"
    short = PositionSpec(min_context_tokens=60)
    with pytest.raises(InputError, match="finds no place in 100 chunks: a context of at least 60"):
        list(places(itertools.repeat(chunk_of(40)), short, patience=100))


def test_a_recipe_without_a_corpus_has_nothing_to_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no text to read"):
        read_documents(Recipe(), 0)


def test_rows_are_made_when_they_are_asked_for_and_not_kept() -> None:
    """Steps of 512 prompts, of 64 tokens each: memory does not grow with them, but by what names a row's source."""
    ids = tuple(range(1000, 1064))
    last = [0]

    def text() -> Iterator[Place]:
        for number in itertools.count():
            last[0] = number
            yield Place(ids, ids[:2], "a", number)

    peaks = []
    for steps in (20, 120):
        tracemalloc.start()
        rows = mixed_rows(Renewed(text), {}, {"text": 1.0}, count=512 * steps)
        assert last == [0]  # the first has been seen to be there
        for number in range(0, len(rows), 16):
            assert rows[number]["position"] == number
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert (peaks[1] - peaks[0]) / (512 * 100 * len(ids)) < 0.5  # bytes per token; lists of rows took 81
    assert rows[1]["position"] == 1 and last == [1]  # what was forgotten is made again
    with pytest.raises(IndexError):
        rows[len(rows)]
