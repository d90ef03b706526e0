"""A family of texts: an opening tells a first state, steps change it one after another, the end tells the last.

Most documents are bare. Some say the running state after every step (they teach the single step), some recapitulate
the steps (they teach to copy), and some think first. Most of those thoughts are useless, a few work. Documents are made
on the fly and never repeated.

A law may add noise. Label noise ends a story in a random state, with what goes with it. Text noise drops or replaces
words of the steps. Noise has draws of its own: the stories beneath are the same at every level, and what a lower level
changes a higher one changes too.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from computeledger.errors import InputError, shown
from rntp.corpus import Document

ORDINALS = (
    "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth", "eleventh",
    "twelfth", "thirteenth", "fourteenth", "fifteenth", "sixteenth", "seventeenth", "eighteenth", "nineteenth",
    "twentieth",
)  # fmt: skip
FILLER = ("well", "now", "let", "me", "see", "what", "there", "is", "to", "say", "about", "this", "and", "its", "end")
LONGEST = 10
#: Steps from which on a story among several of a document is marked: shorter ones need no thought.
WORTH = 5
SHARES = {"dated": 0.20, "recap": 0.15, "thinking": 0.20}
START, SO, BEGIN, END = "start", "so", "<think>", "</think>"


@dataclass(frozen=True)
class Family:
    """The law of a family's texts."""

    name: str
    states: tuple[str, ...]
    words: tuple[str, ...]
    opening: Callable[[random.Random], str]
    step: Callable[[random.Random], str]
    start: Callable[[str], str]
    follow: Callable[[str, str, str], str]
    end: Callable[[random.Random, str], str]


@dataclass(frozen=True)
class Story:
    """What a document tells."""

    opening: str
    ordinals: tuple[str, ...]
    steps: tuple[str, ...]

    def told(self, words: Sequence[str]) -> str:
        """Tell it up to the end, with a word after each step."""
        parts = (f"{name} {step} {word} ," for name, step, word in zip(self.ordinals, self.steps, words, strict=True))
        return " ".join([self.opening, *parts, "."])

    @property
    def copied(self) -> list[str]:
        """Each step with its ordinal."""
        return [f"{name} {step}" for name, step in zip(self.ordinals, self.steps, strict=True)]


def read(context: str) -> Story:
    """Read a story from what stands before the continuation.

    Examples
    --------
    >>> story = Story("it is mon .", ("first", "second"), ("5", "2"))
    >>> read(story.told(["sailing", "resting"])) == story
    True
    """
    before, _, rest = context.strip().rpartition(" . ")
    opening = before.rpartition(" . ")[2]
    legs = [leg.split() for leg in rest.removesuffix(".").rstrip().removesuffix(",").split(" , ")]
    if not opening or any(len(leg) < 3 for leg in legs):
        raise InputError(f"story {shown(context)}: an opening and steps with an ordinal and a word each are needed")
    return Story(f"{opening} .", tuple(leg[0] for leg in legs), tuple(" ".join(leg[1:-1]) for leg in legs))


def states(family: Family, story: Story) -> list[str]:
    """Follow a story.

    Examples
    --------
    >>> from rntp.must_think.ships_log import FAMILY
    >>> states(FAMILY, Story("the gannet left york on tue .", ("first", "second"), ("5", "2")))
    ['tue', 'sun', 'tue']
    """
    out = [family.start(story.opening)]
    for step in story.steps:
        try:
            out.append(family.follow(story.opening, out[-1], step))
        except (ValueError, LookupError):  # of a story with noise in its text
            raise InputError(f"story: {shown(step)} is no step of {shown(family.name)}") from None
    return out


def worked(family: Family, story: Story, chance: random.Random, slip: float = 0.0) -> str:
    """Think step after step; a step may slip to any state, and the next goes on from there.

    Examples
    --------
    >>> from rntp.must_think.ships_log import FAMILY
    >>> worked(FAMILY, Story("the gannet left york on tue .", ("first",), ("5",)), random.Random(0))
    'start tue first 5 sun so sun'
    """
    state = family.start(story.opening)
    said = [START, state]
    for name, step in zip(story.ordinals, story.steps, strict=True):
        slips = chance.random() < slip
        state = chance.choice(family.states) if slips else family.follow(story.opening, state, step)
        said += [name, step, state]
    return " ".join([*said, SO, state])


def useless(family: Family, story: Story, chance: random.Random) -> str:
    """Think in a way that does not help.

    Filler, some steps copied, a guess, or the worked style without its running state.

    Examples
    --------
    >>> from rntp.must_think.ships_log import FAMILY
    >>> story = Story("the gannet left york on tue .", ("first",), ("5",))
    >>> len({useless(FAMILY, story, random.Random(seed)).split()[0] for seed in range(30)}) > 3
    True
    """
    style = chance.randrange(4)
    if style == 0:
        return " ".join(chance.choice(FILLER) for _ in range(chance.randint(5, 19)))
    if style == 1:
        return " ".join(chance.sample(story.copied, min(len(story.copied), chance.randint(1, 5))))
    if style == 2:
        second = f" or maybe {chance.choice(family.states)}" if chance.random() < 0.5 else ""
        return f"i guess {chance.choice(family.states)}{second}"
    return " ".join([START, family.start(story.opening), *story.copied, SO, chance.choice(family.states)])


class Checked(NamedTuple):
    """What is right in a thought."""

    style: bool
    steps: bool
    conclusion: bool


def checked(family: Family, context: str, thought: str) -> Checked:
    """Check a thought word by word against the one that makes no slip.

    Examples
    --------
    >>> from rntp.must_think.ships_log import FAMILY
    >>> context = "the gannet left york on tue . first 5 sailing , ."
    >>> checked(FAMILY, context, "start tue first 5 mon so mon")
    Checked(style=True, steps=False, conclusion=False)
    """
    story = read(context)
    right = oracle(family, context).split()
    given = thought.split()
    stride = 2 + len(story.steps[0].split())
    after = given[1 + stride : -2 : stride]
    style = len(given) == len(right) and given[0] == START and all(word in family.states for word in after)
    return Checked(style, style and given[:-1] == right[:-1], bool(given) and given[-1] == right[-1])


def oracle(family: Family, context: str) -> str:
    """Make the thought that works and makes no slip.

    Examples
    --------
    >>> from rntp.must_think.ships_log import FAMILY
    >>> oracle(FAMILY, "the gannet left york on tue . first 5 sailing , .")
    'start tue first 5 sun so sun'
    """
    return worked(family, read(context), random.Random(0))  # noqa: S311 - nothing is drawn without slips


def story_of(family: Family, chance: random.Random, n: int, *, shifted: bool = False) -> Story:
    """Draw a story.

    Examples
    --------
    >>> from rntp.must_think.ships_log import FAMILY
    >>> story_of(FAMILY, random.Random(0), 3).ordinals
    ('first', 'second', 'third')
    """
    first = chance.randint(0, len(ORDINALS) - n) if shifted else 0
    steps = tuple(family.step(chance) for _ in range(n))
    return Story(family.opening(chance), ORDINALS[first : first + n], steps)


@dataclass(frozen=True)
class Law:
    """What kinds of documents there are, and how many."""

    longest: int = LONGEST
    shares: Mapping[str, float] = None  # type: ignore[assignment]  # filled below: a mapping is no default
    working: float = 0.20
    slip: float = 0.03
    shifted: bool = False
    stories: int = 1
    label_noise: float = 0.0
    text_noise: float = 0.0

    def __post_init__(self) -> None:
        """Fill in the shares, and refuse what cannot be told."""
        object.__setattr__(self, "shares", SHARES | dict(self.shares or {}))
        if not 1 <= self.longest <= len(ORDINALS):
            raise InputError(f"longest {shown(self.longest)}: 1 to {len(ORDINALS)} steps can be told")
        if self.stories < 1:
            raise InputError(f"stories {shown(self.stories)}: at least 1 is needed")
        for name in ("label_noise", "text_noise"):
            given: object = getattr(self, name)
            if not isinstance(given, int | float) or isinstance(given, bool) or not 0 <= given <= 1:
                raise InputError(f"{name} {shown(given)}: a number from 0 to 1 is needed")
        if set(self.shares) != set(SHARES) or not 0 <= sum(self.shares.values()) <= 1:
            raise InputError(
                f"shares {shown(dict(self.shares))}: {', '.join(SHARES)} that add up to at most 1 are needed"
            )


def document(family: Family, chance: random.Random, law: Law, name: str) -> Document:
    """Make a document.

    Examples
    --------
    >>> from rntp.must_think.ships_log import FAMILY
    >>> document(FAMILY, random.Random(4), Law(), "a").kind
    'dated'
    """
    short = chance.random() < 0.25
    n = min(law.longest, chance.choice((1, 1, 2, 2, 3)) if short else chance.randint(1, law.longest))
    story = story_of(family, chance, n, shifted=law.shifted)
    passed = states(family, story)
    words: Sequence[str] = [chance.choice(family.words) for _ in story.steps]
    drawn = chance.choices([*law.shares, "bare"], [*law.shares.values(), 1 - sum(law.shares.values())])[0]
    kind, between = f"bare-{n}", ""
    if drawn == "dated":
        kind, words = "dated", passed[1:]
    elif drawn == "recap":
        kind, between = "recap", f"log {' '.join(story.copied)} . "
    elif drawn == "thinking":
        kind = "worked" if chance.random() < law.working else "useless"
        said = worked(family, story, chance, law.slip) if kind == "worked" else useless(family, story, chance)
        between = f"{BEGIN} {said} {END} "
    noise = random.Random(f"noise in {name}")  # noqa: S311 - a seeded corpus, no secret
    other, is_wrong = noise.choice(family.states), noise.random() < law.label_noise
    told = blurred(story, story.told(words), noise, law.text_noise)
    marks = (len(told),) if drawn == "bare" else ()
    return Document(f"{told} {between}{family.end(chance, other if is_wrong else passed[-1])}", name, kind, marks)


def blurred(story: Story, told: str, chance: random.Random, rate: float) -> str:
    """Drop a word of the steps, or put another one of them in its place, each word at a rate; half of each.

    Examples
    --------
    >>> story = Story("it is mon .", ("first", "second"), ("5", "2"))
    >>> blurred(story, story.told(["sailing", "resting"]), random.Random(0), 0.3)
    'it is mon . first second sailing , second 2 resting , .'
    """
    if not rate:
        return told
    words = told[len(story.opening) :].split()
    pool = [word for word in words if word not in (",", ".")]
    out = []
    for word in words:
        is_hit = chance.random() < rate and word not in (",", ".")
        is_dropped, other = chance.random() < 0.5, chance.choice(pool)
        if not (is_hit and is_dropped):
            out.append(other if is_hit else word)
    return " ".join([story.opening, *out])


def documents(family: Family, seed: int, law: Law) -> Iterator[Document]:
    """Make documents without end.

    Examples
    --------
    >>> from rntp.must_think.ships_log import FAMILY
    >>> next(documents(FAMILY, 0, Law())).id
    "ship's log 0-0"
    >>> next(documents(FAMILY, 0, Law(stories=3))).kind
    '1 places'
    """
    chance = random.Random(f"{family.name} {seed}")  # noqa: S311 - a seeded corpus, no secret
    number = 0
    while True:
        name = f"{family.name} {seed}-{number}"
        told = [document(family, chance, law, name) for _ in range(law.stories)]
        yield told[0] if law.stories == 1 else _joined(told)
        number += 1


def _joined(told: Sequence[Document]) -> Document:
    """One story after another, the ends of long bare ones marked."""
    text, marks = "", []
    for one in told:
        if one.kind.startswith("bare") and int(one.kind.partition("-")[2]) >= WORTH:
            marks.append(len(text) + one.marks[0])
        text += f"{one.text} "
    return Document(text.rstrip(), told[0].id, f"{len(marks)} places", tuple(marks))
