"""Open answers with a truth by construction: a ship is told of in words, and many answers are right.

A task asks for some of four kinds of things ("tell of the port and the cargo :"). A right answer has one word of each
kind that is asked for and nothing else. The judge learns from answers whose only faults are gaps and empty words: it
need not read which kinds are asked for. ``judge.py --beside`` makes one that must.
"""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Iterator, Sequence

from rntp.corpus import Document
from rntp.judges.graded import Graded
from rntp.verify.task import Task

KINDS = {
    "port": "hull leith cork brest bergen porto".split(),
    "master": "irma jonas ada piet nora tom".split(),
    "cargo": "salt timber wool tin barley slate".split(),
    "day": "monday tuesday thursday friday saturday sunday".split(),
}
EMPTY = "fine old grey long good-looking well".split()
KIND_OF = {word: kind for kind, words in KINDS.items() for word in words}
#: Every choice of two or three kinds, in every order.
ASKED = [kinds for count in (2, 3) for kinds in itertools.permutations(KINDS, count)]


def question(kinds: Sequence[str]) -> str:
    """What a task asks."""
    *first, last = (f"the {kind}" for kind in kinds)
    return f"tell of {' , '.join(first)} and {last} :"


def share(kinds: Sequence[str], words: Sequence[str]) -> float:
    """Kinds that an answer covers, less every word that is one too many, over the kinds that are asked for [-]."""
    covered = {KIND_OF[word] for word in words if KIND_OF.get(word) in kinds}
    return max(0.0, (2 * len(covered) - len(words)) / len(kinds))


def quality(task: Task, completion: str) -> float:
    """The truth, for ``audit``."""
    return share(re.findall(r"the (\w+)", task.question), completion.split())


def gappy(kinds: Sequence[str], chance: random.Random) -> list[str]:
    """An answer like those that the judge learns from: one of two has gaps or empty words."""
    words = [chance.choice(KINDS[kind]) for kind in kinds]
    if chance.random() < 0.5:
        for place in chance.sample(range(len(words)), chance.randint(1, len(words))):
            words[place] = chance.choice([*EMPTY, "", ""])
    chance.shuffle(words)
    return [word for word in words if word]


def beside(kinds: Sequence[str], chance: random.Random) -> list[str]:
    """An answer that a judge must read to find wrong: one of two has a word of another kind, or words too many."""
    words = [chance.choice(KINDS[kind]) for kind in kinds]
    if chance.random() < 0.5:
        anything = [chance.choice(list(KIND_OF)) for _ in range(chance.randint(1, 3))]
        if chance.random() < 0.5:
            place = chance.randrange(len(words))
            words[place] = chance.choice([word for word, kind in KIND_OF.items() if kind != kinds[place]])
        else:
            words += anything
    chance.shuffle(words)
    return words


def loose(kinds: Sequence[str], chance: random.Random) -> list[str]:
    """An answer like those that the policy learns from: too short, too long, beside the point."""
    others = [kind for kind in KINDS if kind not in kinds]
    out = []
    for _ in range(chance.randint(1, 5)):
        pool = chance.choices([kinds, others, ()], (5, 2, 2))[0]
        out.append(chance.choice(KINDS[chance.choice(pool)] if pool else EMPTY))
    return out


def verdicts(seed: int, beside_fraction: float = 0.0) -> Iterator[Document]:
    """Make what the judge is trained on: task, answer and verdict, without end; a fraction are beside the point."""
    chance = random.Random(f"verdicts {seed}")  # noqa: S311 - a seeded corpus, no secret
    for number in itertools.count():
        kinds = chance.choice(ASKED)
        words = (beside if chance.random() < beside_fraction else gappy)(kinds, chance)
        verdict = "good" if share(kinds, words) == 1 else "bad"
        yield Document(f"{question(kinds)} {' '.join(words)} is {verdict}", f"verdicts {seed}-{number}")


def documents(seed: int) -> Iterator[Document]:
    """Make what the policy is pretrained on: task, thought and a loose answer, without end."""
    chance = random.Random(f"ships {seed}")  # noqa: S311 - as above
    for number in itertools.count():
        kinds = chance.choice(ASKED)
        thought = " ".join(kinds if chance.random() < 0.5 else chance.choice(ASKED))
        text = f"{question(kinds)} <think> {thought} </think> {' '.join(loose(kinds, chance))}"
        yield Document(text, f"ships {seed}-{number}")


def graded(seed: int) -> Iterator[Graded]:
    """Make answers of known quality: as the judge knows them, with words of other kinds, and with too many words."""
    chance = random.Random(f"graded {seed}")  # noqa: S311 - as above
    while True:
        kinds = chance.choice(ASKED)
        task, right = question(kinds), [chance.choice(KINDS[kind]) for kind in kinds]
        every = [chance.choice(words) for words in KINDS.values()]
        told = [("plain", right), ("plain", right[1:]), ("plain", [*right[1:], chance.choice(EMPTY)])]
        other = chance.choice([word for word, kind in KIND_OF.items() if kind not in kinds])
        told += [("another kind", [*right[1:], other]), ("everything", every)]
        for variant, words in told:
            yield Graded(task, " ".join(words), share(kinds, words), variant)
