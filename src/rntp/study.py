"""A study: variants of one recipe at several seeds, all from the same pretrained models, in one table.

The folder holds ``pretraining/seed-S/``, ``VARIANT/seed-S/`` (an experiment each, as :mod:`rntp.experiment` leaves it)
and, once everything is measured, ``results.json``, a row for each variant and seed. Killed at any moment, the same
command goes on. The judge of a seed is the pretrained model of the next one.
"""

from __future__ import annotations

import multiprocessing
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from computeledger.errors import InputError, nearest, shown
from computeledger.files import read_json, read_toml
from rntp.arms import Arm, carry_out_arm, compared
from rntp.experiment import RUN, Checkpoints, Plan, experiment, fractions, measure_models, pretrained
from rntp.must_think.family import LONGEST, WORTH
from rntp.noise import Cell, fit_noise, payoffs, setting_of, worthless
from rntp.quiet import hush
from rntp.recipe import ControlSpec, PositionSpec, Recipe, ReportSpec, RewardSpec, RlSpec
from rntp.recipe_file import read_recipe, record
from rntp.results import SCHEMA
from rntp.run_folder import BASE, FINAL, SUMMARY, write_json
from rntp.soup import open_checkpoint, write_soup

#: Fits that a study may end with.
FITS = ("", "noise")
BASE_RUNS, RESULTS, SOUP = "pretraining", "results.json", "soup"
#: Tables that pretraining is made by; a variant shares it and so cannot change them.
_SHARED = ("model", "pretrain")
#: Told what was ended, how many are, and of how many.
Told = Callable[[str, int, int], None]
#: What is carried out in a process of its own: its name, a function, and what it is given.
Part = tuple[str, Callable[..., None], tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class Variant:
    """A change of the recipe."""

    name: str = ""
    group: str = ""
    set: tuple[str, ...] = ()
    measure: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    places: int = field(default=0, metadata={"low": 0, "high": 10**6})
    rival: bool = False
    samples: int = field(default=0, metadata={"low": 0, "high": 10**4})
    soup: tuple[str, ...] = ()
    seeds: tuple[int, ...] = field(default=(), metadata={"low": 0, "high": 2**31 - 1})
    arm: Arm | None = None

    @property
    def folder(self) -> str:
        """Its name in small letters and hyphens."""
        return re.sub(r"[^a-z0-9]+", "-", self.name.lower()).strip("-")


@dataclass(frozen=True, slots=True)
class Study:
    """What a study file says."""

    name: str = ""
    recipe: str = "config.toml"
    output: str = ""
    pretrained: str = ""
    seeds: tuple[int, ...] = field(default=(0, 1), metadata={"low": 0, "high": 2**31 - 1})
    places: int = field(default=384, metadata={"low": 2, "high": 10**6})
    set: tuple[str, ...] = ()
    fit: str = field(default="", metadata={"choices": FITS})
    variants: tuple[Variant, ...] = ()
    folder: Path = field(default=Path(), compare=False)


def read_study(path: Path) -> Study:
    """Read and check a study.

    Examples
    --------
    >>> read_study(Path("nowhere.toml"))
    Traceback (most recent call last):
    computeledger.errors.InputError: nowhere.toml: no such file
    """
    given = read_toml(path)
    try:
        study: Study = record(Study, {"name": path.stem, **given}, "")
        study = replace(study, folder=path.parent, output=study.output or f"runs/{study.name}")
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    for problem in _problems(study):
        raise InputError(f"{path}: {problem}")
    for variant in (None, *study.variants):
        recipe_of(study, variant, study.seeds[0])
    return study


def _problems(study: Study) -> Iterator[str]:
    """What does not go together."""
    if len(set(study.seeds)) != len(study.seeds) or len(study.seeds) < 2:
        yield f"seeds {shown(list(study.seeds))}: at least two different ones are needed, the spread is the point"
    if not study.variants:
        yield "no [[variants]]: at least one is needed"
    names = [one.folder for one in study.variants]
    for one in study.variants:
        if not one.folder or names.count(one.folder) > 1 or one.folder == BASE_RUNS:
            yield f"[[variants]] name {shown(one.name)}: a name of its own is needed for each, and not {BASE_RUNS!r}"
        for setting in (*one.set, *one.measure):
            if setting.partition(".")[0].strip() in _SHARED:
                yield f"[[variants]] {shown(one.name)}: {shown(setting)} would change the pretraining that all share"
        trained = [other.name for other in study.variants if not other.soup]
        if one.arm is not None and (one.soup or one.rival):
            yield f"[[variants]] {shown(one.name)}: an arm takes no soup or rival"
        if one.arm is None and study.fit:
            yield f"[[variants]] {shown(one.name)}: fit {shown(study.fit)} needs an arm in every variant"
        if stranger := set(one.seeds) - set(study.seeds):
            yield f"[[variants]] {shown(one.name)}: seeds {shown(sorted(stranger))} are not among the study's"
        for part in one.soup:
            if part not in trained:
                yield f"[[variants]] {shown(one.name)}: soup of {shown(part)}: {nearest(part, trained)}"


def recipe_of(study: Study, variant: Variant | None, seed: int) -> Recipe:
    """Make the recipe of a variant, or of the pretraining.

    Examples
    --------
    >>> study = Study(recipe="config.toml", output="runs/a", folder=Path("recipes/must_think"))
    >>> recipe_of(study, Variant("Half as many", set=("rl.steps=80",)), 1).output
    'runs/a/half-as-many/seed-1'
    """
    path = study.folder / study.recipe
    whole, part = (study.output, variant.folder) if variant else (study.pretrained or study.output, BASE_RUNS)
    output = f"{whole}/{part}/seed-{seed}"
    settings = [*study.set, f"seed={seed}", f"output={output}"]
    if variant is None:
        given = read_recipe(path, settings)
        rl = RlSpec(device=given.rl.device, precision=given.rl.precision)
        return replace(  # what comes after pretraining may change without another one
            given, positions=PositionSpec(), reward=RewardSpec(), rl=rl,
            controls=ControlSpec(), report=ReportSpec(),
        )  # fmt: skip
    base = os.path.relpath(_base(study, seed), path.parent)
    return read_recipe(path, [*settings, f"model.path={base}", *variant.set])


def _base(study: Study, seed: int) -> Path:
    return Path(study.pretrained or study.output) / BASE_RUNS / f"seed-{seed}" / BASE


def _plan(study: Study, variant: Variant, seed: int, thread_count: int) -> Plan:
    """What of a variant is measured, and by whom it is judged."""
    after = study.seeds[(study.seeds.index(seed) + 1) % len(study.seeds)]
    where = recipe_of(study, replace(variant, set=(*variant.set, *variant.measure)), seed) if variant.measure else None
    places = variant.places or study.places
    return Plan(places, _base(study, after), variant.kinds, thread_count, variant.rival, variant.samples, where)


def _silent(*_: object) -> None:
    """Say nothing of the steps."""


def _trained(study: Study, variant: Variant, seed: int, thread_count: int) -> None:
    """Carry a variant out, in a process of its own."""
    if variant.arm is not None:
        plan = _plan(study, variant, seed, thread_count)
        carry_out_arm(recipe_of(study, variant, seed), _base(study, seed), variant.arm, plan)
        return
    experiment(recipe_of(study, variant, seed), _plan(study, variant, seed, thread_count), _silent)


def _souped(study: Study, variant: Variant, seed: int, thread_count: int) -> None:
    """Average the models of variants and measure that."""
    recipe, plan = recipe_of(study, variant, seed), _plan(study, variant, seed, thread_count)
    folder = Path(recipe.output)
    by_name = {one.name: one for one in study.variants}
    parts = [Path(recipe_of(study, by_name[name], seed).output) / RUN / FINAL for name in variant.soup]
    folder.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(folder / SOUP, ignore_errors=True)  # the parts may have been trained again
    write_soup([open_checkpoint(one) for one in parts], [1 / len(parts)] * len(parts), "linear", folder / SOUP)
    begun = time.perf_counter()
    there = Checkpoints(_base(study, seed), folder / SOUP, plan.judge or _base(study, seed))
    measured = measure_models(recipe, there, plan)
    wall_s = time.perf_counter() - begun
    write_json(folder / SUMMARY, {**fractions(measured), "measured": measured, "curve": [], "wall_s": wall_s})


def carry_out(study: Study, told: Told, *, jobs: int, thread_count: int) -> dict[str, Any]:
    """Carry a study out, or go on with it.

    Examples
    --------
    >>> carry_out(Study(output="docs/book"), print, jobs=1, thread_count=1)
    Traceback (most recent call last):
    computeledger.errors.InputError: output 'docs/book': holds other files and no study; choose another folder
    """
    folder = Path(study.output)
    if folder.is_dir() and any(folder.iterdir()) and not any(folder.glob("*/seed-*/")):
        raise InputError(f"output {shown(study.output)}: holds other files and no study; choose another folder")
    every = [(one, seed) for one in study.variants for seed in one.seeds or study.seeds]
    plan = Plan(thread_count=thread_count)
    bases: list[Part] = [
        (f"seed {seed}", pretrained, (recipe_of(study, None, seed), plan, False)) for seed in study.seeds
    ]
    parts = [
        (one.soup, (f"{one.name}, seed {seed}", _souped if one.soup else _trained, (study, one, seed, thread_count)))
        for one, seed in every
    ]
    stages: tuple[list[Part], ...] = (
        bases, [part for soup, part in parts if not soup], [part for soup, part in parts if soup],
    )  # fmt: skip
    total, ended = sum(map(len, stages)), 0
    for stage in stages:
        for name in _side_by_side(stage, jobs):
            ended += 1
            told(name, ended, total)
    rows = [_row(study, one, seed) for one, seed in every]
    results = {"schema": SCHEMA, "name": study.name, "places": study.places, **compared(rows), "rows": rows}
    if study.fit:
        results["fit"] = _fit(study, results)
    write_json(folder / RESULTS, results)
    return results


def _fit(study: Study, results: dict[str, Any]) -> dict[str, Any]:
    """The law of noise over the variants that are trained; the others say what is closed before."""
    closed = {one["variant"]: one["by_seed"] for one in results["means"] if one["measure"] == "gap_closed"}
    settings = {row["variant"]: row["setting"] for row in results["rows"]}
    cells = [
        Cell(**{name: value for name, value in said.items() if name != "positions"}, closed=tuple(closed[variant]))
        for variant, said in settings.items()
        if said is not None
    ]
    before = [value for variant, said in settings.items() if said is None for value in closed[variant]]
    if not before:
        raise InputError(f"fit {shown(study.fit)}: an arm of no seconds is needed, the model before RL")
    recipe, rewards = recipe_of(study, study.variants[0], study.seeds[0]), sorted({one.reward for one in cells})
    earned = [payoffs(replace(recipe, seed=seed), _base(study, seed), rewards) for seed in study.seeds]
    limits = {name: worthless([one[name] for one in earned]) for name in rewards}
    return fit_noise(cells, sum(before) / len(before), limits, range(WORTH, LONGEST + 1))


def _side_by_side(stage: Sequence[Part], jobs: int) -> Iterator[str]:
    """Carry parts out, each in a process of its own where several run; a part that fails ends the study."""
    if jobs == 1:
        for name, what, given in stage:
            what(*given)
            yield name
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, context, initializer=hush, max_tasks_per_child=1) as pool:
        asked = {pool.submit(what, *given): name for name, what, given in stage}
        try:
            for one in as_completed(asked):
                one.result()
                yield asked[one]
        finally:
            pool.shutdown(cancel_futures=True)


def _row(study: Study, variant: Variant, seed: int) -> dict[str, Any]:
    """What stands in the table of a variant at a seed."""
    output = Path(recipe_of(study, variant, seed).output)
    summary = read_json(output / SUMMARY)
    if variant.arm is not None:
        trained = study.fit and variant.arm.device_s
        setting = {"setting": setting_of(recipe_of(study, variant, seed)) if trained else None} if study.fit else {}
        return {
            "variant": variant.name, "group": variant.group, "seed": seed, "set": list(variant.set), **setting,
            "arm": asdict(variant.arm), "took": summary["took"], "measured": summary["measured"],
        }  # fmt: skip
    kept = ("beta_flop", "beta_gpu_time", "wall_s", "pretraining_wall_s", "steps", "phases", "ntp_equal_time", "curve")
    return {
        "variant": variant.name, "group": variant.group, "seed": seed, "set": list(variant.set),
        **fractions(summary["measured"]), "measured": summary["measured"],
        **{name: summary.get(name) for name in kept},
    }  # fmt: skip
