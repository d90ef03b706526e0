"""A search of the shares of several kinds of text and of tasks in RL, by successive halving on held-out documents.

A source is a family of the corpus, ``text`` (the corpus as it is), an environment of the recipe, or ``verified`` (the
ends of the same documents, asked for and checked). Candidates are shares of the sources: a grid on the simplex, or
draws. Every candidate is trained for the device-time of the first rung and measured on one half of what is held out;
the best go on, the same run made longer, to the next rung, until one is left. Then the other half judges it, beside
equal shares and soups of runs over one source each, at the same device-time in all.

The folder holds ``CANDIDATE/seed-S/``, ``alone-SOURCE/seed-S/``, ``soup/`` and ``results.json``. Killed at any moment,
the same command goes on.
"""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from computeledger.errors import InputError, nearest, shown
from computeledger.files import read_toml
from rntp.arms import verified
from rntp.device_time import SPENT
from rntp.effects import mean_effect, paired_effect
from rntp.evaluate import gold_scores, places_of
from rntp.experiment import Plan, pretrained
from rntp.mixture import TEXT
from rntp.models import load_model
from rntp.must_think.families import FAMILIES
from rntp.outcomes import Asked, asked_at, outcomes
from rntp.positions import Place
from rntp.recipe import Recipe
from rntp.recipe_file import fingerprint, read_recipe, record
from rntp.results import MIXTURE_SCHEMA
from rntp.run import run
from rntp.run_folder import BASE, FINAL, read_json, read_metrics, write_json
from rntp.sampling import Sampling, sample_thoughts
from rntp.solvers import asked_of
from rntp.soup import merged_state, search_weights
from rntp.study import BASE_RUNS, RESULTS, Study, recipe_of

Floats = NDArray[np.float64]
#: What was measured of a model: target -> a value per document.
Measured = dict[str, list[float]]
#: Shares of the sources, in their order.
Shares = tuple[float, ...]
#: Told what was ended.
Told = Callable[[str], None]

#: Sources beside families and environments.
_VERIFIED = "verified"
MEASURES = ("right", "thought_right", "gain_nats")
#: Halves of what is held out: documents in turn.
CHOOSING, JUDGING = (slice(0, None, 2), slice(1, None, 2))
#: Ways that are judged beside what the search found.
BEFORE, FOUND, EQUAL, SOUP, SEARCHED_SOUP = "before", "found", "equal shares", "soup, equal", "soup, searched"
_HELD_OUT = 31337
_SOUP, _MEASURED = "soup", "measured.json"
#: Distinct verified problems of a run.
_ASKED = 2048


@dataclass(frozen=True, slots=True)
class Search:
    """What a file of a search says.

    Attributes
    ----------
    sources : tuple of str
        What shares are of.
    grid : int
        Parts that the whole is cut into: candidates are all shares in such parts; 0 for draws [-].
    draws, draw_seed : int
        Candidates drawn evenly from the simplex, where there is no grid, and their seed [-].
    rungs_s : tuple of float
        Device-time of a candidate up to each rung [s].
    eta : float
        One in so many goes on [-].
    places : int
        Held-out documents of each target, both halves together [-].
    measure : str
        Of documents that must be thought about: right answers, right thoughts, or what thoughts gain.
    matters : mapping
        Weight of each target: a family, ``text`` or an environment; all families and environments among the sources
        alike where left out [-].
    soup_trials : int
        Weights tried for a soup; 0 for the equal one alone [-].
    """

    name: str = ""
    recipe: str = "config.toml"
    output: str = ""
    pretrained: str = ""
    seeds: tuple[int, ...] = field(default=(0,), metadata={"low": 0, "high": 2**31 - 1})
    set: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    grid: int = field(default=3, metadata={"low": 0, "high": 20})
    draws: int = field(default=0, metadata={"low": 0, "high": 1000})
    draw_seed: int = field(default=0, metadata={"low": 0, "high": 2**31 - 1})
    rungs_s: tuple[float, ...] = field(default=(10.0, 30.0), metadata={"low": 0.01, "high": 1e10})
    eta: float = field(default=3.0, metadata={"low": 1.01, "high": 100})
    places: int = field(default=192, metadata={"low": 8, "high": 10**6})
    measure: str = field(default="right", metadata={"choices": MEASURES})
    matters: Mapping[str, float] = field(default_factory=dict)
    soup_trials: int = field(default=8, metadata={"low": 0, "high": 100})
    folder: Path = field(default=Path(), compare=False)


def read_search(path: Path) -> Search:
    """Read and check a search.

    Examples
    --------
    >>> read_search(Path("nowhere.toml"))
    Traceback (most recent call last):
    computeledger.errors.InputError: nowhere.toml: no such file
    """
    given = read_toml(path)
    try:
        found: Search = record(Search, {"name": path.stem, **given}, "")
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    found = replace(found, folder=path.parent, output=found.output or f"runs/{found.name}")
    for problem in _problems(found):
        raise InputError(f"{path}: {problem}")
    return found


def _problems(asked: Search) -> Iterator[str]:
    """What does not go together."""
    recipe = _recipe(asked, 0)
    environments = [one.name for one in recipe.environments]
    known = [*_families(recipe), TEXT, _VERIFIED, *environments]
    if len(asked.sources) < 2 or len(set(asked.sources)) != len(asked.sources):
        yield f"sources {shown(list(asked.sources))}: at least two are needed, and each once"
    for name in asked.sources:
        if name not in known:
            yield f"sources {shown(name)}: {nearest(name, known)}"
    if TEXT in asked.sources and set(asked.sources) & set(_families(recipe)):
        yield f"sources {shown(TEXT)}: is the corpus as it is, and its families are named beside"
    if not asked.seeds or len(set(asked.seeds)) != len(asked.seeds):
        yield f"seeds {shown(list(asked.seeds))}: at least one is needed, and each once"
    if bool(asked.grid) == bool(asked.draws):
        yield f"grid {asked.grid} and draws {asked.draws}: one of the two is needed, the other 0"
    if not asked.rungs_s or list(asked.rungs_s) != sorted(set(asked.rungs_s)):
        yield f"rungs_s {shown(list(asked.rungs_s))}: times that grow are needed"
    for name, weight in asked.matters.items():
        if name not in (targets := [*(FAMILIES if _families(recipe) else ()), TEXT, *environments]):
            yield f"[matters] {shown(name)}: {nearest(name, targets)}"
        given: object = weight
        if not isinstance(given, int | float) or isinstance(given, bool) or not 0 < given < math.inf:
            yield f"[matters] {shown(name)} {shown(weight)}: a number above 0 is needed"
    if not weights_of(asked):
        yield "[matters]: is needed where no source can be measured by itself"


def _recipe(asked: Search, seed: int) -> Recipe:
    return read_recipe(asked.folder / asked.recipe, [*asked.set, f"seed={seed}", f"output={asked.output}"])


def _families(recipe: Recipe) -> tuple[str, ...]:
    """Families that the corpus is told to take."""
    source = recipe.corpus.source if recipe.corpus else ()
    named = any(one.endswith("must_think.families:documents") for one in source)
    return tuple(recipe.corpus.options.get("names", FAMILIES)) if recipe.corpus and named else ()


def weights_of(asked: Search) -> dict[str, float]:
    """Weight of each target, all together 1.

    Examples
    --------
    >>> weights_of(Search(sources=("dance", "verified"), matters={"dance": 1, "program": 3}))
    {'dance': 0.25, 'program': 0.75}
    >>> weights_of(Search(sources=("dance", "program", "verified")))
    {'dance': 0.5, 'program': 0.5}
    """
    given = asked.matters or dict.fromkeys((name for name in asked.sources if name != _VERIFIED), 1.0)
    total = sum(given.values())
    return {name: weight / total for name, weight in given.items()}


def candidates(asked: Search) -> list[Shares]:
    """Shares that are tried.

    Examples
    --------
    >>> candidates(Search(sources=("a", "b"), grid=2))
    [(1.0, 0.0), (0.5, 0.5), (0.0, 1.0)]
    >>> [round(sum(one), 9) for one in candidates(Search(sources=("a", "b", "c"), grid=0, draws=2))]
    [1.0, 1.0]
    """
    count = len(asked.sources)
    if asked.grid:
        cuts = itertools.product(range(asked.grid, -1, -1), repeat=count)
        return [tuple(part / asked.grid for part in one) for one in cuts if sum(one) == asked.grid]
    drawn = np.random.default_rng(asked.draw_seed).dirichlet(np.ones(count), asked.draws)
    return [tuple(row.tolist()) for row in drawn]


def kept_counts(count: int, rungs: int, eta: float) -> list[int]:
    """How many candidates are trained to each rung.

    Examples
    --------
    >>> kept_counts(10, 3, 3.0)
    [10, 4, 2]
    """
    out = [count]
    for _ in range(1, rungs):
        out.append(max(1, math.ceil(out[-1] / eta)))
    return out


def _name(sources: Sequence[str], shares: Shares) -> str:
    """A candidate in words."""
    return ", ".join(f"{100 * share:.3g} % {name}" for name, share in zip(sources, shares, strict=True) if share)


def _place(shares: Shares) -> str:
    """Its folder."""
    return "shares-" + "-".join(f"{share:.3f}" for share in shares)


def mixed(recipe: Recipe, sources: Sequence[str], shares: Shares) -> Recipe:
    """Give a recipe its sources in some shares; the folder of ``output`` gets the verified problems.

    Examples
    --------
    >>> from rntp.recipe import CorpusSpec, EnvironmentSpec
    >>> some = Recipe(corpus=CorpusSpec(), environments=(EnvironmentSpec("sums"), EnvironmentSpec("chains")))
    >>> found = mixed(some, ("text", "sums"), (0.25, 0.75))
    >>> found.corpus.weight, [(one.name, one.weight) for one in found.environments]
    (0.25, [('sums', 0.75)])
    """
    share = {name: one for name, one in zip(sources, shares, strict=True) if one > 0}
    families = {name: one for name, one in share.items() if name in _families(recipe)}
    found = [replace(one, weight=share[one.name]) for one in recipe.environments if one.name in share]
    corpus = recipe.corpus
    if corpus is not None:
        told = {"names": list(families), "weights": list(families.values())} if families else {}
        weight = sum(families.values()) or share.get(TEXT, 0.0)
        corpus = replace(corpus, weight=weight, options={**corpus.options, **told})
    if _VERIFIED in share:  # of all the sources' documents alike, whatever the shares of the text
        names = [name for name in sources if name in _families(recipe)]
        read = recipe.corpus
        if read is not None and names:
            read = replace(read, options={**read.options, "names": names})
        found.append(verified(replace(recipe, corpus=read), share[_VERIFIED], _ASKED))
    return replace(recipe, corpus=corpus, environments=tuple(found))


@dataclass(frozen=True)
class _Bench:
    """Held-out documents of each target, and the model before RL, of one seed."""

    asked: Search
    seed: int
    scorer: Any
    tokenizer: Any
    sampling: Sampling
    texts: dict[str, Asked] = field(default_factory=dict)

    @property
    def recipe(self) -> Recipe:
        return _recipe(self.asked, self.seed)

    def measured(self, model: Any) -> Measured:
        """Measure a model on both halves."""
        return {name: self._target(model.eval(), name).tolist() for name in weights_of(self.asked)}

    def _target(self, model: Any, name: str) -> Floats:
        recipe = replace(self.recipe, seed=_HELD_OUT)
        environment = next((one for one in recipe.environments if one.name == name), None)
        if environment is not None:
            alone, count = replace(recipe, environments=(environment,)), (self.asked.places, recipe.seed)
            values = asked_of(alone, environment, self.tokenizer, self.sampling, count).solve(model, slice(None))
            return np.asarray(np.nan_to_num(values.mean(axis=1)))
        if name == TEXT:
            return self._gain(model, recipe)
        if name not in self.texts:
            corpus = recipe.corpus and replace(recipe.corpus, options={**recipe.corpus.options, "names": [name]})
            found = places_of(replace(recipe, corpus=corpus), self.scorer, self.tokenizer, self.asked.places)
            self.texts[name] = asked_at(self.tokenizer, found, self.sampling)
        per_document = outcomes(model, self.scorer, self.texts[name], 0)["per_document"]
        return np.array(per_document[self.asked.measure], dtype=float)

    def _gain(self, model: Any, recipe: Recipe) -> Floats:
        """Nats that a thought of the model gains at each place, read by the model before RL."""
        places: list[Place] = places_of(recipe, self.scorer, self.tokenizer, self.asked.places)
        rows = sample_thoughts(model, [one.context_ids for one in places], self.sampling).rows
        with_thought, without = (gold_scores(self.scorer, places, some, self.sampling).sums for some in (rows, None))
        return np.asarray(with_thought - without)


@dataclass(frozen=True)
class _Work:
    """What was trained and measured so far, and how."""

    asked: Search
    told: Told
    benches: dict[int, _Bench] = field(default_factory=dict)

    def base(self, seed: int) -> Path:
        """Model before RL."""
        return Path(self.asked.pretrained or self.asked.output) / BASE_RUNS / f"seed-{seed}" / BASE

    def bench(self, seed: int) -> _Bench:
        """Held-out documents of a seed, read once."""
        if seed not in self.benches:
            recipe = _recipe(self.asked, seed)
            scorer, tokenizer = load_model(self.base(seed), recipe.thought)
            start, end = tokenizer.convert_tokens_to_ids([recipe.thought.start, recipe.thought.end])
            sampling = Sampling(
                start, end, recipe.thought.budget, thoughts=1, temperature=recipe.rl.temperature,
                skip_first_gold=recipe.positions.skip_first_gold, stop_ids=(tokenizer.eos_token_id,), seed=_HELD_OUT,
            )  # fmt: skip
            self.benches[seed] = _Bench(self.asked, seed, scorer.eval(), tokenizer, sampling)
        return self.benches[seed]

    def once(self, path: Path, mark: str, measure: Callable[[], Measured]) -> Measured:
        """Measure, unless that was done."""
        before = read_json(path)
        if before is not None and before.get("mark") == mark:
            return dict(before["measured"])
        found = measure()
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, {"mark": mark, "measured": found})
        return found

    def mark(self, *more: object) -> str:
        """What two measurements share that are the same."""
        asked = self.asked
        return "/".join(map(str, (asked.places, asked.measure, *weights_of(asked).items(), *more)))

    def before(self) -> list[Measured]:
        """Measure the models before RL."""
        return [
            self.once(
                Path(self.asked.output) / BASE_RUNS / f"seed-{seed}" / _MEASURED, self.mark(),
                lambda seed=seed: self.bench(seed).measured(self.bench(seed).scorer),  # type: ignore[misc]
            )
            for seed in self.asked.seeds
        ]  # fmt: skip

    def reached(self, name: str, shares: Shares, device_s: float) -> list[Measured]:
        """Train on shares up to a device-time, or make that run longer, and measure it."""
        out = []
        for seed in self.asked.seeds:
            folder = Path(self.asked.output) / name / f"seed-{seed}"
            own = mixed(replace(_recipe(self.asked, seed), output=str(folder)), self.asked.sources, shares)
            base = os.path.relpath(self.base(seed), own.folder)
            rl, model = replace(own.rl, device_s=device_s), replace(own.model, path=base)
            own = replace(own, rl=rl, model=model, output=str(folder / "run"))

            def measure(own: Recipe = own, seed: int = seed) -> Measured:
                run(own, longer=True)
                return self.bench(seed).measured(load_model(Path(own.output) / FINAL, own.thought)[0])

            out.append(self.once(folder / f"measured-{device_s:g}.json", self.mark(fingerprint(own)), measure))
            self.told(f"{name}, {device_s:g} s, seed {seed}: {self.score(out[-1:], CHOOSING):.3f}")
        return out

    def score(self, measured: Sequence[Measured], half: slice) -> float:
        """Weighted mean over targets, documents of a half and seeds."""
        return float(self.values(measured, half).mean())

    def values(self, measured: Sequence[Measured], half: slice) -> Floats:
        """A row per seed, a column per document of any target, so scaled that their mean is the weighted one."""
        weights = weights_of(self.asked)
        parts = {name: np.array([one[name][half] for one in measured], dtype=float) for name in weights}
        count = sum(one.shape[1] for one in parts.values())
        return np.concatenate([one * weights[name] * count / one.shape[1] for name, one in parts.items()], axis=1)

    def spent(self, name: str) -> float:
        """Device-time of the runs of a folder, all seeds together."""
        folders = [Path(self.asked.output) / name / f"seed-{seed}" / "run" for seed in self.asked.seeds]
        return float(sum(rows[-1][SPENT] for one in folders if (rows := read_metrics(one))))


def carry_out(asked: Search, told: Told, thread_count: int = 1) -> dict[str, Any]:
    """Search, or go on with it.

    Parameters
    ----------
    asked : Search
        What is searched.
    told : callable
        Told what was ended.
    thread_count : int
        Threads of the process [-].

    Returns
    -------
    dict
        What ``results.json`` holds.

    Examples
    --------
    >>> carry_out(Search(recipe="nowhere.toml"), print)
    Traceback (most recent call last):
    computeledger.errors.InputError: nowhere.toml: no such file
    """
    torch.set_num_threads(thread_count)
    study = Study(
        asked.name, asked.recipe, asked.output, asked.pretrained, asked.seeds, set=asked.set, folder=asked.folder,
    )  # fmt: skip
    for seed in asked.seeds:
        pretrained(recipe_of(study, None, seed), Plan(thread_count=thread_count), fresh=False)
    work = _Work(asked, told)
    alive = candidates(asked)
    rungs: list[dict[str, Any]] = []
    for device_s, count in zip(asked.rungs_s, kept_counts(len(alive), len(asked.rungs_s), asked.eta), strict=True):
        scored = [(work.reached(_place(one), one, device_s), one) for one in alive[:count]]
        scored.sort(key=lambda pair: -work.score(pair[0], CHOOSING))
        alive = [one for _, one in scored]
        rungs.append({
            "device_s": device_s,
            "candidates": [
                {"name": _name(asked.sources, one), "shares": list(one), "score": work.score(found, CHOOSING),
                 "by_target": _by_target(found, CHOOSING)}
                for found, one in scored
            ],
        })  # fmt: skip
    searched_s = sum(work.spent(_place(one)) for one in candidates(asked))
    results = {
        "schema": MIXTURE_SCHEMA, "name": asked.name, "sources": list(asked.sources), "targets": weights_of(asked),
        "measure": asked.measure, "seeds": list(asked.seeds), "places": asked.places, "rungs": rungs,
        "found": rungs[-1]["candidates"][0], "searched_device_s": searched_s, **_judged(work, alive[0]),
    }  # fmt: skip
    write_json(Path(asked.output) / RESULTS, results)
    return results


def _by_target(measured: Sequence[Measured], half: slice) -> dict[str, float]:
    return {name: float(np.mean([one[name][half] for one in measured])) for name in measured[0]}


def _judged(work: _Work, best: Shares) -> dict[str, Any]:
    """What was found beside other ways at the same device-time, on documents that nothing was chosen by."""
    asked = work.asked
    last, count = asked.rungs_s[-1], len(asked.sources)
    equal = (1 / count,) * count
    ways = {
        BEFORE: (0.0, "", work.before()),
        FOUND: (last, _name(asked.sources, best), work.reached(_place(best), best, last)),
        EQUAL: (last, _name(asked.sources, equal), work.reached(_place(equal), equal, last)),
    }
    parts = []
    for name in asked.sources:
        alone = tuple(float(name == one) for one in asked.sources)
        folder = f"alone-{'-'.join(''.join(one if one.isalnum() else ' ' for one in name).split())}"
        ways[f"{name} alone"] = (last / count, name, work.reached(folder, alone, last / count))
        parts.append(folder)
    ways |= {name: (last, said, found) for name, (said, found) in _soups(work, parts).items()}
    rows = [
        {"way": name, "device_s": device_s, "of": said, "chosen_on": work.score(found, CHOOSING),
         **mean_effect(work.values(found, JUDGING)).document(), "by_target": _by_target(found, JUDGING)}
        for name, (device_s, said, found) in ways.items()
    ]  # fmt: skip
    own = work.values(ways[FOUND][2], JUDGING)
    effects = [
        {"against": name, **paired_effect(own, work.values(found, JUDGING)).document()}
        for name, (_, _, found) in ways.items()
        if name != FOUND
    ]
    return {"judged": rows, "effects": effects}


def _soups(work: _Work, parts: Sequence[str]) -> dict[str, tuple[str, list[Measured]]]:
    """Equal soup of the runs over one source each, and the one whose weights score best on the choosing half."""
    asked = work.asked
    paths = {seed: [Path(asked.output) / one / f"seed-{seed}" / "run" / FINAL for one in parts] for seed in asked.seeds}
    loaded = {seed: [load_model(one, _recipe(asked, seed).thought)[0] for one in some] for seed, some in paths.items()}
    states = {seed: [{**one.state_dict()} for one in some] for seed, some in loaded.items()}
    mark = work.mark(*(one.stat().st_mtime_ns for some in paths.values() for one in some))
    models = {seed: load_model(some[0], _recipe(asked, seed).thought)[0] for seed, some in paths.items()}

    def measured(weights: Sequence[float]) -> list[Measured]:
        out = []
        for seed in asked.seeds:
            name = "-".join(f"{one:.3f}" for one in weights)

            def measure(seed: int = seed) -> Measured:
                models[seed].load_state_dict(merged_state(states[seed], weights, "linear"))
                return work.bench(seed).measured(models[seed])

            out.append(work.once(Path(asked.output) / _SOUP / f"seed-{seed}" / f"{name}.json", mark, measure))
        return out

    equal = (1 / len(parts),) * len(parts)
    found = {SOUP: (_name(asked.sources, equal), measured(equal))}
    if asked.soup_trials:
        trials = search_weights(
            lambda weights: -work.score(measured(weights), CHOOSING), len(parts), asked.soup_trials
        )  # fmt: skip
        best = min(trials, key=lambda one: one.score).weights
        found[SEARCHED_SOUP] = (_name(asked.sources, best), measured(best))
    return found
