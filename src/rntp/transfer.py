"""Transfer: what is learnt on text of one kind, measured on the others, before and after a stage common to all.

Every arm begins from the same pretrained model and spends the same device-time on text of some families. Each is then
measured on every family three ways: with thoughts of its own, with thoughts whose beginning is given, the same to all
(the first step of the worked format), and by the likelihood of every state where the rest of a right thought is given.
What differs in the last two is no longer whether the format is begun. Then comes the common stage: supervised training
on worked thoughts, and RL with verified answers, on all families.

The folder holds ``ARM/seed-S/`` with ``arm/``, ``supervised/``, ``verified/`` and what was measured, and
``results.json``. Killed at any moment, the same command goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from computeledger.errors import InputError, nearest, shown
from computeledger.files import read_toml
from rntp.arms import NTP, Arm, carry_out_arm
from rntp.effects import mean_effect, paired_effect
from rntp.evaluate import gold_scores, places_of
from rntp.experiment import RUN, Plan, pretrained
from rntp.gap import oracle_thoughts, words_of
from rntp.models import load_model
from rntp.must_think.families import FAMILIES, family_of
from rntp.must_think.family import checked, read
from rntp.outcomes import Asked, asked_at
from rntp.positions import Place
from rntp.recipe import Recipe
from rntp.recipe_file import fingerprint, read_recipe, record
from rntp.results import TRANSFER_SCHEMA
from rntp.run_folder import BASE, FINAL, read_json, write_json
from rntp.sampling import Sampling, Thought, answers_after, sample_thoughts
from rntp.study import BASE_RUNS, RESULTS, Study, recipe_of
from rntp.verify.task import Task
from rntp.verify.text import pattern_score

Floats = NDArray[np.float64]
#: What was measured of an arm at a stage: family -> measure -> a value per document.
Measured = dict[str, dict[str, list[float]]]
#: Told what was ended, how many are, and of how many.
Told = Callable[[str, int, int], None]

#: How an arm spends its time: not at all, next-token training, RL on the text, RL with verified answers.
UNTRAINED = "untrained"
WAYS = {UNTRAINED: (0.0, 0.0), "next-token": (1.0, 0.0), "rntp": (0.0, 0.0), "rlvr": (0.0, 1.0)}
#: Folders of an arm's stages, and what is measured after which.
ARM, SUPERVISED, VERIFIED = "arm", "supervised", "verified"
STAGES = ("alone", "after the common stage")
#: The families whose text no arm reads, taken together.
ELSEWHERE = "texts that no arm reads"
#: Measures in which arms are compared.
COMPARED = ("right", "steps right", "begun: right", "begun: steps right", "next state")
#: Steps of the worked format that every thought begins with where its beginning is given.
GIVEN_STEPS = 1
#: Kinds of documents that worked thoughts are in, and those of an arm's own table.
_WORKED, _BARE = "*/worked", ("*/bare-[5-9]", "*/bare-10")
_ONLY_BARE: dict[str, Any] = {"shares": {"dated": 0.0, "recap": 0.0, "thinking": 0.0}}
#: What an arm's own table needs is bare.
_MOSTLY_WORKED = {"shares": {"dated": 0.0, "recap": 0.0, "thinking": 0.9}, "working": 1.0, "slip": 0.0}
#: Stream of the held-out places, the same for every arm and seed.
_HELD_OUT = 31337
#: Places of the arms' own table, which is not looked at.
_FEW = 8


@dataclass(frozen=True, slots=True)
class TransferArm:
    """A way of training, and the families whose text it reads."""

    name: str = ""
    way: str = field(default="rntp", metadata={"choices": tuple(WAYS)})
    texts: tuple[str, ...] = ()

    @property
    def folder(self) -> str:
        """Its name in small letters and hyphens."""
        return "-".join("".join(one if one.isalnum() else " " for one in self.name.lower()).split())


@dataclass(frozen=True, slots=True)
class CommonStage:
    """What every arm is given in the end; a part of no seconds is left out."""

    texts: tuple[str, ...] = tuple(FAMILIES)
    supervised_s: float = field(default=10.0, metadata={"low": 0, "high": 1e10})
    verified_s: float = field(default=15.0, metadata={"low": 0, "high": 1e10})


@dataclass(frozen=True, slots=True)
class Transfer:
    """What a file of transfer says."""

    name: str = ""
    recipe: str = "families.toml"
    output: str = ""
    seeds: tuple[int, ...] = field(default=(0, 1, 2), metadata={"low": 0, "high": 2**31 - 1})
    places: int = field(default=192, metadata={"low": 8, "high": 10**6})
    device_s: float = field(default=60.0, metadata={"low": 0.1, "high": 1e10})
    next_token_rate: float = field(default=3e-4, metadata={"low": 0, "high": 1e3})
    set: tuple[str, ...] = ()
    against: tuple[str, ...] = ()
    arms: tuple[TransferArm, ...] = ()
    common: CommonStage = field(default_factory=CommonStage)
    folder: Path = field(default=Path(), compare=False)


def read_transfer(path: Path) -> Transfer:
    """Read and check what is to be trained and measured.

    Examples
    --------
    >>> read_transfer(Path("nowhere.toml"))
    Traceback (most recent call last):
    computeledger.errors.InputError: nowhere.toml: no such file
    """
    given = read_toml(path)
    try:
        found: Transfer = record(Transfer, {"name": path.stem, **given}, "")
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    found = replace(found, folder=path.parent, output=found.output or f"runs/{found.name}")
    for problem in _problems(found):
        raise InputError(f"{path}: {problem}")
    _recipe(found, found.seeds[0])
    return found


def _problems(asked: Transfer) -> Iterator[str]:
    """What does not go together."""
    if not asked.seeds or len(set(asked.seeds)) != len(asked.seeds):
        yield f"seeds {shown(list(asked.seeds))}: at least one is needed, and each once"
    names = [one.folder for one in asked.arms]
    if not asked.arms or asked.arms[0].way != UNTRAINED:
        yield f"[[arms]]: the first is held against the others and must have way = {UNTRAINED!r}"
    for one in asked.arms:
        if not one.folder or names.count(one.folder) > 1 or one.folder == BASE_RUNS:
            yield f"[[arms]] name {shown(one.name)}: a name of its own is needed for each, and not {BASE_RUNS!r}"
        if (one.way == UNTRAINED) != (not one.texts):
            yield f"[[arms]] {shown(one.name)}: texts are needed where something is trained, and only there"
    for name in asked.against:
        if name not in (known := [one.name for one in asked.arms]):
            yield f"against {shown(name)}: {nearest(name, known)}"
    for name in (*asked.common.texts, *(name for one in asked.arms for name in one.texts)):
        if name not in FAMILIES:
            yield f"texts {shown(name)}: {nearest(name, FAMILIES)}"


def _study(asked: Transfer) -> Study:
    return Study(
        asked.name, asked.recipe, asked.output, seeds=asked.seeds, set=asked.set, folder=asked.folder,
    )  # fmt: skip


def _recipe(asked: Transfer, seed: int) -> Recipe:
    """The recipe with all that is set, and no model yet."""
    return read_recipe(asked.folder / asked.recipe, [*asked.set, f"seed={seed}", f"output={asked.output}"])


def _on(recipe: Recipe, texts: Sequence[str], law: Mapping[str, Any], output: Path) -> Recipe:
    """The recipe on text of some families."""
    if recipe.corpus is None:
        raise InputError("transfer: the recipe needs a [corpus]")
    corpus = replace(recipe.corpus, options={**recipe.corpus.options, **law, "names": list(texts)})
    return replace(recipe, corpus=corpus, output=str(output))


def carry_out(asked: Transfer, told: Told, seeds: Sequence[int] = (), thread_count: int = 1) -> dict[str, Any]:
    """Train and measure, or go on with it; the results are those of all seeds that are whole.

    Parameters
    ----------
    asked : Transfer
        The arms.
    told : callable
        Told what was ended, how many are, and of how many.
    seeds : sequence of int
        Seeds that are carried out now; all when left empty.
    thread_count : int
        Threads of the process [-].

    Returns
    -------
    dict
        What ``results.json`` holds.

    Examples
    --------
    >>> carry_out(Transfer(seeds=(0, 1)), print, [2])
    Traceback (most recent call last):
    computeledger.errors.InputError: seed 2: is not among the file's: 0, 1
    """
    for seed in seeds:
        if seed not in asked.seeds:
            raise InputError(f"seed {seed}: is not among the file's: {', '.join(map(str, asked.seeds))}")
    torch.set_num_threads(thread_count)
    todo = [(seed, arm) for seed in seeds or asked.seeds for arm in asked.arms]
    for ended, (seed, arm) in enumerate(todo):
        if ended % len(asked.arms) == 0:
            pretrained(recipe_of(_study(asked), None, seed), Plan(thread_count=thread_count), fresh=False)
        _arm(asked, arm, seed, thread_count)
        told(f"{arm.name}, seed {seed}", ended + 1, len(todo))
    results = results_of(asked)
    write_json(Path(asked.output) / RESULTS, results)
    return results


def _arm(asked: Transfer, arm: TransferArm, seed: int, thread_count: int) -> None:
    """Train an arm, measure it, give it what all are given, and measure it again."""
    recipe = _recipe(asked, seed)
    base, folder = Path(asked.output) / BASE_RUNS / f"seed-{seed}" / BASE, _folder(asked, arm, seed)
    model, took = base, {}
    ntp, rlvr = WAYS[arm.way]
    if arm.way != UNTRAINED:
        spent = Arm(asked.device_s, ntp, asked.next_token_rate, rlvr)
        model, took[ARM] = _trained(_on(recipe, arm.texts, _ONLY_BARE, folder / ARM), base, spent, thread_count)
    _measure_once(asked, recipe, (base, model), folder / _file(STAGES[0]), took)
    common = asked.common
    plain, verified = (
        Arm(common.supervised_s, 1.0, asked.next_token_rate), Arm(common.verified_s, rlvr_fraction=1.0),
    )  # fmt: skip
    shown = _on(recipe, common.texts, _MOSTLY_WORKED, folder / SUPERVISED)
    whole = recipe.pretrain.sequence_tokens if recipe.pretrain else recipe.model.context_tokens
    where = replace(shown.positions, kinds=(_WORKED,), context_tokens=whole - shown.positions.gold_tokens)
    last = _on(recipe, common.texts, _ONLY_BARE, folder / VERIFIED)
    for name, part, way in ((SUPERVISED, replace(shown, positions=where), plain), (VERIFIED, last, verified)):
        if way.device_s:
            model, took[name] = _trained(part, model, way, thread_count)
    _measure_once(asked, recipe, (base, model), folder / _file(STAGES[1]), took)


def _folder(asked: Transfer, arm: TransferArm, seed: int) -> Path:
    return Path(asked.output) / arm.folder / f"seed-{seed}"


def _file(stage: str) -> str:
    return f"{stage.replace(' ', '-')}.json"


def _trained(recipe: Recipe, base: Path, arm: Arm, thread_count: int) -> tuple[Path, dict[str, Any]]:
    """Train, and say where the model is and what it took."""
    first = (recipe.corpus.options["names"] if recipe.corpus else [""])[0]  # an arm's own table is of one family
    kinds = tuple(kind.replace("*", first, 1) for kind in _BARE)
    summary = carry_out_arm(recipe, base, arm, Plan(_FEW, kinds=kinds, thread_count=thread_count))
    folder = Path(recipe.output)
    return (folder / NTP if arm.ntp_fraction else folder / RUN / FINAL), summary["took"]


def _measure_once(
    asked: Transfer, recipe: Recipe, models: tuple[Path, Path], path: Path, took: Mapping[str, Any]
) -> None:
    """Measure a model on every family, unless that was done."""
    mark = f"{fingerprint(recipe)}/{asked.places}/{asked.device_s}/{asked.common}"
    if (read_json(path) or {}).get("fingerprint") == mark:
        return
    base, trained = models
    scorer, tokenizer = load_model(base, recipe.thought)
    model = load_model(trained, recipe.thought)[0].eval()
    start, end = tokenizer.convert_tokens_to_ids([recipe.thought.start, recipe.thought.end])
    sampling = Sampling(
        start, end, recipe.thought.budget, thoughts=1, temperature=recipe.rl.temperature,
        skip_first_gold=recipe.positions.skip_first_gold, stop_ids=(tokenizer.eos_token_id,), seed=_HELD_OUT,
    )  # fmt: skip
    found: Measured = {}
    for name in FAMILIES:
        where = replace(_on(recipe, [name], _ONLY_BARE, path.parent), seed=_HELD_OUT)
        places = places_of(where, scorer, tokenizer, asked.places)
        found[name] = carried_over(model, scorer.eval(), asked_at(tokenizer, places, sampling))
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, {"fingerprint": mark, "took": took, "families": found})


def carried_over(model: Any, scorer: Any, asked: Asked) -> dict[str, list[float]]:
    """Measure a model at places of one family, document by document.

    Examples
    --------
    >>> from rntp.models import make_model, make_tokenizer
    >>> from rntp.recipe import ModelSpec, ThoughtSpec
    >>> context, gold = "the gannet left york on tue . first 5 sailing , .", "at last it came to hull on sun"
    >>> words = make_tokenizer(ModelSpec(tokenizer="word"), ThoughtSpec(), [f"{context} {gold} start so"])
    >>> spec = ModelSpec(hidden_size=8, heads=1, kv_heads=1, layers=1, intermediate_size=8)
    >>> start, end = words.convert_tokens_to_ids(["<think>", "</think>"])
    >>> place = Place(tuple(words(context)["input_ids"]), tuple(words(gold)["input_ids"]), "ship's log 0", 9)
    >>> model = make_model(spec, words).eval()
    >>> asked = asked_at(words, [place], Sampling(start, end, 4, thoughts=1, stop_ids=(words.eos_token_id,)))
    >>> found = carried_over(model, model, asked)
    >>> found["right"], found["begun: right"], 0 < found["next state"][0] < 1
    ([0.0], [0.0], True)
    """
    places, sampling = asked.places, asked.sampling
    oracles = oracle_thoughts(asked.tokenizer, places, sampling)
    none, full = (gold_scores(scorer, places, rows, sampling).sums for rows in (None, oracles))
    begun, states = beginnings(asked)
    out: dict[str, Floats] = {"gap_nats": full - none, "next state": _next_state(model, asked, oracles, states)}
    contexts = [place.context_ids for place in places]
    for label, given in (("", []), ("begun: ", begun)):
        room = max(1, sampling.budget - min(map(len, given), default=0))
        rows = sample_thoughts(model, contexts, replace(sampling, budget=room), given).rows
        marks = np.array([
            checked(family_of(place.document), words_of(asked.tokenizer, place.context_ids),
                    words_of(asked.tokenizer, row[1:-1]))
            for place, row in zip(places, rows, strict=True)
        ], dtype=float)  # fmt: skip
        prompts = [[*place.context_ids, *row] for place, row in zip(places, rows, strict=True)]
        texts = answers_after(model, asked.tokenizer, prompts, sampling, asked.answer_tokens)
        wanted = [Task("", "text", {"answer": pattern}) for pattern in asked.patterns]
        out |= {
            f"{label}right": np.array([pattern_score(*one) for one in zip(wanted, texts, strict=True)]),
            f"{label}worked style": marks[:, 0], f"{label}steps right": marks[:, 1],
            f"{label}gain_nats": gold_scores(scorer, places, rows, sampling).sums - none,
        }  # fmt: skip
    return {name: values.tolist() for name, values in out.items()}


def beginnings(asked: Asked) -> tuple[list[Thought], list[list[int]]]:
    """Give how every thought begins where its beginning is given, and where the right thought says its states.

    Examples
    --------
    >>> beginnings(Asked(None, [], [], Sampling(1, 2, 3)))
    ([], [])
    """
    begun, states = [], []
    for place, thought in zip(
        asked.places, oracle_thoughts(asked.tokenizer, asked.places, asked.sampling), strict=True
    ):
        story = read(words_of(asked.tokenizer, place.context_ids))
        stride = 2 + len(story.steps[0].split())  # ordinal, step, state
        begun.append(thought[1 : 3 + stride * GIVEN_STEPS])
        states.append([1 + stride * (step + 1) for step in range(len(story.steps))])
    return begun, states


def _next_state(model: Any, asked: Asked, oracles: Sequence[Thought], states: Sequence[Sequence[int]]) -> Floats:
    """Probability of the right state after each step where all before it is given; the mean of a document."""
    places = [
        Place((*place.context_ids, thought[0]), thought[1:], place.document, place.position, place.kind)
        for place, thought in zip(asked.places, oracles, strict=True)
    ]
    likely = np.exp(gold_scores(model, places, None, replace(asked.sampling, skip_first_gold=0)).log_probs)
    return np.array([float(likely[number, list(some)].mean()) for number, some in enumerate(states)])


def results_of(asked: Transfer) -> dict[str, Any]:
    """Put together what was measured, of the seeds that are whole.

    Examples
    --------
    >>> results_of(Transfer(output="runs/nothing", arms=(TransferArm("before", UNTRAINED),)))
    Traceback (most recent call last):
    computeledger.errors.InputError: transfer: no seed is whole yet
    """
    whole: dict[int, dict[tuple[str, str], dict[str, Any]]] = {}
    for seed in asked.seeds:
        found = {
            (arm.name, stage): read_json(_folder(asked, arm, seed) / _file(stage))
            for arm in asked.arms
            for stage in STAGES
        }
        if all(found.values()):
            whole[seed] = {key: one for key, one in found.items() if one is not None}
    if not whole:
        raise InputError("transfer: no seed is whole yet")
    measured = {key: [one[key]["families"] for one in whole.values()] for key in next(iter(whole.values()))}
    rows = [
        {"arm": arm.name, "stage": stage, "where": where, **_row(asked, measured, (arm, stage), names)}
        for stage in STAGES
        for arm in asked.arms
        for where, names in _wheres(asked).items()
    ]
    took = {
        arm.name: {str(seed): one[(arm.name, STAGES[1])]["took"] for seed, one in whole.items()} for arm in asked.arms
    }
    return {
        "schema": TRANSFER_SCHEMA, "name": asked.name, "places": asked.places, "seeds": list(whole),
        "seeds_asked": list(asked.seeds), "device_s": asked.device_s,
        "arms": {arm.name: list(arm.texts) for arm in asked.arms}, "took": took, "rows": rows,
    }  # fmt: skip


def _wheres(asked: Transfer) -> dict[str, tuple[str, ...]]:
    """Families that are measured: each, and together those whose text no arm reads."""
    seen = {name for arm in asked.arms for name in arm.texts}
    return {**{name: (name,) for name in FAMILIES}, ELSEWHERE: tuple(name for name in FAMILIES if name not in seen)}


def _row(
    asked: Transfer,
    measured: Mapping[tuple[str, str], Sequence[Measured]],
    key: tuple[TransferArm, str],
    names: Sequence[str],
) -> dict[str, Any]:
    """Means with intervals over seeds and documents, and differences to others at the same documents."""
    arm, stage = key
    own = _values(measured[(arm.name, stage)], names)
    return {
        "measures": {name: mean_effect(values).document() for name, values in own.items()},
        "over": {
            other: {
                name: paired_effect(own[name], values).document()
                for name, values in _values(measured[(other, stage)], names).items()
                if name in COMPARED
            }
            for other in (asked.arms[0].name, *asked.against)
            if other != arm.name
        },
    }


def _values(seeds: Sequence[Measured], names: Sequence[str]) -> dict[str, Floats]:
    """A row per seed and a column per document of the families; gains as shares of a family's mean gap."""
    out: dict[str, list[Floats]] = {}
    for family in names:
        every = {name: np.array([one[family][name] for one in seeds], dtype=float) for name in seeds[0][family]}
        gap = every.pop("gap_nats").mean(axis=1, keepdims=True)
        for name, values in every.items():
            share = values / gap if name.endswith("gain_nats") else values
            out.setdefault(name.replace("gain_nats", "gap closed"), []).append(share)
    return {name: np.concatenate(parts, axis=1) for name, parts in out.items()}
