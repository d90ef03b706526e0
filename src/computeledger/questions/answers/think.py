"""Answer which size, how much thinking and how many samples reach a success at least cost, and at least wait."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from computeledger.economics.thinking.budget import shipped_lengths
from computeledger.economics.thinking.checked import checked
from computeledger.economics.thinking.choice import (
    ONE_BY_ONE,
    Alike,
    Level,
    Way,
    alike_of,
    known_levels,
    law_level,
    length_half_width,
    natural_tokens,
    published_half_width,
    same_model,
    ways_of,
)
from computeledger.economics.thinking.level import Thinker, shipped_levels, success_of
from computeledger.economics.thinking.measured import UNKNOWN, level_rows, pretraining_tokens, released_year
from computeledger.economics.thinking.proposals import Selector, proposals_of, published_selector
from computeledger.economics.thinking.samples import correlation_by_kind, exponent_ratios, likenesses
from computeledger.economics.thinking.votes import votes, wrong_on
from computeledger.errors import InputError
from computeledger.facts.architecture import Model
from computeledger.facts.load import load_model
from computeledger.fields import Given
from computeledger.files import user_files_allowed
from computeledger.physics.transformer import n_params_active, n_params_total
from computeledger.progress import counted
from computeledger.questions.answer import Answer, from_python
from computeledger.questions.answers.serving.answer import answer_one_pool
from computeledger.questions.answers.think_working import Served, Tasks, think_figures
from computeledger.questions.think import ThinkQuestion
from computeledger.units import TOKENS_PER_MTOK
from computeledger.workloads.questions.serve import ServeQuestion
from computeledger.workloads.serving.search import ServingOption, pareto_front

#: Compared where no model is named: one family of eight sizes, published with and without thinking.
FAMILY = tuple(f"Qwen/Qwen3-{size}" for size in ("0.6B", "1.7B", "4B", "8B", "14B", "32B", "30B-A3B", "235B-A22B"))
#: Draws of what is uncertain about speed and cost; digits of a length that is asked of ``serve``.
_SAMPLES, _DIGITS = 64, 2
#: Basis and kind of a way whose model nobody published thinking.
_NEVER_SEEN = ("the law", "thinking")


@dataclass(frozen=True, slots=True)
class Priced:
    """A way with what it costs and how long it takes where it is cheapest, and where it is fastest.

    Attributes
    ----------
    way : Way
        Model, limit, samples and selection.
    model : str
        Id that is served.
    selector : str or None
        Id of the model that selects, where this one only proposes.
    selector_tokens : float
        That it writes per task [token].
    usd_per_task, task_s : float
        On the cheapest layout and batch [USD], [s].
    layout, batch : str, int
        Of those.
    fastest_usd_per_task, fastest_task_s : float
        On the fastest, where the answers to a task that are written side by side share one batch [USD], [s].
    fastest_layout, fastest_batch : str, int
        Of those.
    selector_usd, selector_s : float
        Of the cost and the time those of selecting [USD], [s].
    """

    way: Way
    model: str
    usd_per_task: float
    task_s: float
    layout: str
    batch: int
    fastest_usd_per_task: float
    fastest_task_s: float
    fastest_layout: str
    fastest_batch: int
    selector: str | None = None
    selector_tokens: float = 0.0
    selector_usd: float = 0.0
    selector_s: float = 0.0


@dataclass(frozen=True, slots=True)
class _Offers:
    """What serves answers of one length: options that none beats in speed and throughput, and in speed and batch."""

    front: tuple[ServingOption, ...]
    quickest: tuple[ServingOption, ...]

    def quickest_of(self, samples: int) -> ServingOption:
        """The shortest time per token at a batch that holds so many answers, else at the largest batch there is."""
        held = min(samples, self.quickest[-1].batch)
        return next(one for one in self.quickest if one.batch >= held)


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class ThinkAnswer(Answer):
    """Ways to a success: the cheapest, the fastest, and those that none beats."""

    question: ThinkQuestion
    options: tuple[Priced, ...]
    assumptions: tuple[str, ...]
    extrapolated: tuple[str, ...]
    ranges: Mapping[str, Mapping[str, float | str]] = field(default_factory=dict)
    served: Mapping[str, Any] = field(default_factory=dict)

    @property
    def reaching(self) -> tuple[Priced, ...]:
        """Ways whose success reaches what is asked, the cheapest first."""
        enough = [one for one in self.options if one.way.success >= self.question.success]
        return tuple(sorted(enough, key=lambda one: one.usd_per_task))

    @property
    def cheapest(self) -> Priced | None:
        """The way to the success at least cost per task."""
        return next(iter(self.reaching), None)

    @property
    def surest(self) -> Priced | None:
        """The cheapest way whose whole 90 % interval reaches the success."""
        enough = [one for one in self.reaching if one.way.low >= self.question.success]
        return next(iter(enough), None)

    @property
    def highest(self) -> Priced:
        """The way with the highest success, the cheapest such one."""
        return self.front[-1]

    @property
    def shown(self) -> Priced:
        """The way that answers: the cheapest to the success, or the highest where none reaches it."""
        return self.cheapest or self.highest

    @property
    def fastest(self) -> Priced | None:
        """The way to the success with the shortest wait."""
        return min(self.reaching, key=lambda one: one.fastest_task_s, default=None)

    @property
    def front(self) -> tuple[Priced, ...]:
        """Ways than which none succeeds more often for less, the cheapest first."""
        kept: list[Priced] = []
        for one in sorted(self.options, key=lambda option: (option.usd_per_task, -option.way.success)):
            if not kept or one.way.success > kept[-1].way.success + 1e-9:
                kept.append(one)
        return tuple(kept)

    def contents(self, *, working: bool = False) -> dict[str, Any]:
        """As ``computeledger think --json`` prints it."""
        by_model: dict[str, Priced] = {}
        for one in self.reaching:
            by_model.setdefault(_who(one), one)
        ranges = {name: dict(ends) for name, ends in self.ranges.items()}
        found = {
            "benchmark": self.question.benchmark,
            "success_fraction": self.question.success,
            "cheapest": _document(self.cheapest),
            "cheapest_ranges": ranges if self.cheapest else {},
            "surest": _document(self.surest),
            "highest": _document(self.highest),
            "highest_ranges": {} if self.cheapest else ranges,
            "fastest": _document(self.fastest),
            "by_model": {model: _document(one) for model, one in by_model.items()},
            "front": [_document(one) for one in self.front],
            "proposals": [_document(one) for one in self.options if one.selector is not None],
            "ways_compared": len(self.options),
            **self.served,
            "law": {
                "logit_of_success": shipped_levels().values,
                "correlation_by_kind": correlation_by_kind(),
                "wrong_answer_diversity": wrong_on(self.question.benchmark).diversity,
                "slopes": shipped_levels().slopes,
                "coverage_exponent_after_rl_over_before": _exponents(),
            },
            "assumptions": list(self.assumptions),
            "extrapolated": list(self.extrapolated),
            "left_out": [dataclasses.asdict(one) for one in checked()],
        }
        return {**found, "working": _working(self)} if working else found


def _working(answer: ThinkAnswer) -> list[dict[str, Any]]:
    """Formula and inputs of the way that answers, after those of its layout as ``serve`` counts them."""
    one, asked = answer.shown, answer.question
    served = _served(asked, one).to_dict(working=True)
    cost = Served(served, one.layout, one.batch, one.selector_usd, one.selector_s)
    totals = {"tokens_per_task": _tokens(one), "usd_per_task": one.usd_per_task, "seconds": one.task_s}
    tasks = Tasks(asked.benchmark, asked.input_tokens, _given_length(asked, one.way.level.kind))
    figures = think_figures(one.way, tasks, cost, {**totals, **answer.ranges})
    return [*served["working"], *figures]


def _exponents() -> dict[str, float | str]:
    """What RL leaves of the gain by further samples, over published pairs."""
    low, median, high = np.quantile([ratio for _, _, ratio in exponent_ratios()], [0.05, 0.5, 0.95])
    return {"p05": float(low), "p50": float(median), "p95": float(high), "unit": ""}


def _who(one: Priced) -> str:
    return one.model if one.selector is None else f"{one.model} proposes, {one.selector} selects"


def _tokens(one: Priced) -> float:
    return one.way.answer_tokens * one.way.answers + one.selector_tokens


def _document(one: Priced | None) -> dict[str, Any] | None:
    if one is None:
        return None
    way = one.way
    return {
        "model": one.model,
        "selector": one.selector,
        "kind": way.level.kind,
        "basis": way.level.basis,
        "budget_tokens": None if math.isinf(way.budget_tokens) else way.budget_tokens,
        "samples": way.samples,
        "selection": way.selection,
        "success": {"p05": way.low, "p50": way.success, "p95": way.high, "unit": ""},
        "answer_tokens": way.answer_tokens,
        "tokens_per_task": _tokens(one),
        "usd_per_task": one.usd_per_task,
        "usd_per_solved_task": one.usd_per_task / max(way.success, 1e-9),
        "seconds": one.task_s,
        "layout": one.layout,
        "batch": one.batch,
        "where_fastest": {
            "usd_per_task": one.fastest_usd_per_task,
            "seconds": one.fastest_task_s,
            "layout": one.fastest_layout,
            "batch": one.fastest_batch,
        },
    }


def think(question: ThinkQuestion | None = None, /, **given: Given) -> ThinkAnswer:
    """Which model, thinking as long as that, with so many samples, reaches a success at least cost or wait.

    Parameters
    ----------
    question : ThinkQuestion, optional
        What is asked; keywords change single fields of it.
    **given : str, float, Range or sequence of str
        Fields of :class:`~computeledger.questions.think.ThinkQuestion`.

    Returns
    -------
    ThinkAnswer
        The cheapest and the fastest way, and those that none beats.

    Raises
    ------
    InputError
        For bad input.

    Examples
    --------
    >>> answer = think(success=0.7, model=("qwen3-4b", "qwen3-32b"))
    >>> answer.cheapest.way.success >= 0.7, answer.fastest.fastest_task_s <= answer.cheapest.fastest_task_s
    (True, True)
    """
    return from_python(ThinkQuestion, answer_think, question, given)


def answer_think(question: ThinkQuestion) -> ThinkAnswer:
    """Answer ``computeledger think``."""
    if question.proposer is None and (question.proposer_success or question.selector_tokens) is not None:
        raise InputError(
            "--proposer-success and --selector-tokens tell of a model that proposes: name it by --proposer"
        )
    options: list[Priced] = []
    for name in counted(question.model or FAMILY, "models priced"):
        model = load_model(name)
        offers: dict[float, _Offers] = {}
        for level in _levels(question, model, name):
            ways = ways_of(level, question.max_samples, question.false_accept)
            options += [_priced(question, name, way, offers) for way in ways]
        if question.proposer is not None:
            options += _selected(question, question.proposer, name)
    assumed = [
        f"a task of {question.input_tokens:g} tokens",
        "a thought that is cut short falls back to the success without thinking",
        "instruct models' answers are as alike as those of models after RL",
    ]
    if question.proposer is not None:
        assumed.append("proposals are as alike as a base model's answers, and as long as answers without thinking")
        assumed.append("a selector reads every proposal and writes as much as an answer without thinking"
                       if question.selector_tokens is None else "a selector reads every proposal")  # fmt: skip
        if question.false_accept is None:
            errs = published_selector()
            shares = f"{errs.false_accept:.0%} of wrong proposals ({errs.low:.0%} to {errs.high:.0%})"
            assumed.append(f"a selector accepts {shares}, as process reward models do on MATH-500, and all right ones")
    if any(one.way.level.natural_tokens and not _length(question, one.way.level.kind)[1] for one in options):
        assumed.append("answers without thinking are shorter than with it as on other benchmarks")
    if any("law" in one.way.level.basis for one in options):
        assumed.append(f"pretraining of {question.pretraining_tokens:.3g} tokens where none was published")
        assumed.append("a release as late as that of the newest published model where none is known")
    untold = dict.fromkeys(one.model for one in options if (one.way.level.basis, one.way.level.kind) == _NEVER_SEEN)
    if untold and question.kind is None:
        assumed.append(f"trained to think, though no success with thinking was published: {', '.join(untold)}")
    answer = ThinkAnswer(question, tuple(options), tuple(assumed), _extrapolated(options))
    served = _served(question, answer.shown).to_dict()
    setup = {name: served[name] for name in ("accelerator", "n_gpus_per_replica", "price")}
    return dataclasses.replace(answer, ranges=_ranges(question, answer.shown, served), served=setup)


def _extrapolated(options: Sequence[Priced]) -> tuple[str, ...]:
    """Where ways lie beyond the figures that their laws were held against."""
    ways = [one.way for one in options]
    found = []
    if any(0 < way.budget_tokens < math.inf for way in ways):
        found.append(
            "limits of thoughts were measured on a 1.7B model (256 to 4,096 tokens) and on closed models (16K to 64K)"
        )
    most = max((vote.row.samples for vote in votes()), default=0.0)
    if any(way.selection == "vote" and way.samples > most for way in ways):
        found.append(f"votes of more than {most:g} were not published")
    tried = max(one.samples for one in likenesses())
    if any(way.selection not in ("single", "vote") and way.samples > tried for way in ways):
        found.append(f"answers of which one is right were published for {tried:g} at most")
    sizes = [row.active for row in level_rows()]
    beyond = sorted({one.model for one in options if "law" in one.way.level.basis
                     and not min(sizes) <= n_params_active(load_model(one.model)) <= max(sizes)})  # fmt: skip
    if beyond:
        found.append(f"{', '.join(beyond)}: active parameters outside those of the law")
    return tuple(found)


def _given_length(question: ThinkQuestion, kind: str) -> bool:
    return question.natural_tokens is not None and kind != "instruct"


def _length(question: ThinkQuestion, kind: str) -> tuple[float, bool]:
    """Mean length of answers, and whether somebody published or gave it."""
    if _given_length(question, kind) and question.natural_tokens is not None:
        return question.natural_tokens, True
    return natural_tokens(kind, question.benchmark)


def _levels(question: ThinkQuestion, model: Model, given: str) -> list[Level]:
    """A model in every way of asking whose success was published, else in one by the law."""
    name = model.id.rpartition("/")[2].removeprefix("Meta-") or given
    known = known_levels(name, question.benchmark)
    thinker = Thinker(
        float(n_params_active(model)), float(n_params_total(model)),
        pretraining_tokens(name) or question.pretraining_tokens, question.kind or "thinking",
        released_year(name),
    )  # fmt: skip
    plain, _ = law_level(dataclasses.replace(thinker, kind="instruct"), name, question.benchmark)
    floor = next((row.success for row, _ in known if row.kind == "instruct"), success_of(plain, question.benchmark))
    if not known:
        score, width = law_level(thinker, name, question.benchmark)
        elsewhere = any(same_model(row.model, name) and row.kind == thinker.kind for row in level_rows())
        basis = "the law, with the model's other benchmarks" if elsewhere else "the law"
        found = [(thinker.kind, basis, success_of(score, question.benchmark), width)]
    else:
        found = [(row.kind, f"{row.source}, {row.locator}", row.success, width) for row, width in known]
    return [
        Level(name, kind, basis, success, width, success if kind == "instruct" else min(floor, success),
              _length(question, kind)[0], alike_of(name, kind, question.benchmark), wrong_on(question.benchmark))
        for kind, basis, success, width in found
    ]  # fmt: skip


def _proposer(question: ThinkQuestion, proposer: str) -> Level:
    """A base model without thinking: its success as given, else that of the instruct model of its name."""
    model = load_model(proposer)
    name = model.id.rpartition("/")[2].removeprefix("Meta-").removesuffix("-Base")
    tasks = question.benchmark
    known = next((row for row, _ in known_levels(name, tasks) if row.kind == "instruct"), None)
    thinker = Thinker(
        float(n_params_active(model)), float(n_params_total(model)),
        pretraining_tokens(name) or question.pretraining_tokens, "instruct", released_year(name),
    )  # fmt: skip
    score, width = law_level(thinker, name, tasks)
    success, basis = success_of(score, tasks), "the law"
    if known is not None:
        success, basis, width = known.success, f"{known.source}, {known.locator}", published_half_width(known.success)
    if question.proposer_success is not None:
        success, basis, width = question.proposer_success, "given", published_half_width(question.proposer_success)
    alike = Alike(correlation_by_kind()["base"], UNKNOWN)
    return Level(name, "base", basis, success, width, success, natural_tokens("instruct", tasks)[0], alike,
                 wrong_on(tasks))  # fmt: skip


def _selected(question: ThinkQuestion, proposer: str, selector: str) -> list[Priced]:
    """The proposer's answers, each read and judged by one model: what both cost, one after the other."""
    level = _proposer(question, proposer)
    wrote = question.selector_tokens or natural_tokens("instruct", question.benchmark)[0]
    errs = published_selector() if question.false_accept is None else Selector(*[question.false_accept] * 3)
    judging = dataclasses.replace(question, input_tokens=question.input_tokens + level.natural_tokens)
    served = _offers(judging, selector, float(f"{wrote:.{_DIGITS}g}"))
    offers: dict[float, _Offers] = {}
    found = []
    for way in proposals_of(level, question.max_samples, errs):
        own = _priced(question, proposer, way, offers)
        judged = dataclasses.replace(way, answer_tokens=wrote, wait_tokens=shipped_lengths().longest_tokens(
            way.samples, math.inf, wrote))  # fmt: skip
        other = _priced(judging, selector, judged, {float(f"{max(wrote, 1.0):.{_DIGITS}g}"): served})
        found.append(
            dataclasses.replace(
                own,
                selector=selector,
                selector_tokens=wrote * way.answers,
                selector_usd=other.usd_per_task,
                selector_s=other.task_s,
                usd_per_task=own.usd_per_task + other.usd_per_task,
                task_s=own.task_s + other.task_s,
                fastest_usd_per_task=own.fastest_usd_per_task + other.fastest_usd_per_task,
                fastest_task_s=own.fastest_task_s + other.fastest_task_s,
            )
        )
    return found


def _priced(question: ThinkQuestion, name: str, way: Way, offers: dict[float, _Offers]) -> Priced:
    length = _rounded(way)
    if length not in offers:
        offers[length] = _offers(question, name, length)
    cheap = min(offers[length].front, key=lambda one: _usd(question, way, one))
    fast = offers[length].quickest_of(1 if way.selection in ONE_BY_ONE else way.samples)
    usual = _usd(question, way, cheap), _seconds(way, cheap), str(cheap.layout), cheap.batch
    soonest = _usd_held(question, way, fast), _seconds(way, fast), str(fast.layout), fast.batch
    if soonest[1] >= usual[1]:  # a batch that holds all answers may be slower than several smaller ones
        soonest = usual
    return Priced(way, name, *usual, *soonest)


def _asked(question: ThinkQuestion, name: str, length: float) -> ServeQuestion:
    return ServeQuestion(
        model=name, system=question.system, price=question.price, samples=_SAMPLES,
        input_tokens=question.input_tokens, output_tokens=length,
    )  # fmt: skip


def _served(question: ThinkQuestion, one: Priced) -> Answer:
    """What ``serve`` says of the layout and batch of a way."""
    asked = _asked(question, one.model, _rounded(one.way))
    return answer_one_pool(dataclasses.replace(asked, layout=one.layout, batch=int(one.batch)))


def _ranges(question: ThinkQuestion, one: Priced, served: Mapping[str, Any]) -> dict[str, dict[str, float | str]]:
    """90 % intervals of tokens, cost and wait: what ``serve`` says of its layout, and what published lengths differ by.

    Nothing where a second model selects.
    """
    if one.selector is not None:
        return {}
    way, law = one.way, shipped_lengths()
    width = 0.0 if _given_length(question, way.level.kind) else length_half_width(question.benchmark)
    lengths = [math.log(law.used_tokens(way.budget_tokens, way.level.natural_tokens * math.exp(side * width))
                        / way.answer_tokens) for side in (-1, 1)]  # fmt: skip
    found: dict[str, dict[str, float | str]] = {}
    for name, value, of, unit in (
        ("tokens_per_task", way.answer_tokens * way.answers, None, ""),
        ("usd_per_task", one.usd_per_task, "usd_per_mtok_output", "USD"),
        ("seconds", one.task_s, "tpot_s", "s"),
    ):
        speeds = [math.log(served[of][end] / served[of]["p50"]) if of else 0.0 for end in ("p05", "p95")]
        low, high = (math.hypot(speed, length) for speed, length in zip(speeds, lengths, strict=True))
        found[name] = {"p05": value * math.exp(-low), "p50": value, "p95": value * math.exp(high), "unit": unit}
    return found


def _rounded(way: Way) -> float:
    return float(f"{max(way.answer_tokens, 1.0):.{_DIGITS}g}")


def _offers(question: ThinkQuestion, name: str, length: float) -> _Offers:
    """Layouts and batches that serve a model at one length of its answers."""
    asked = _asked(question, name, length)
    return _searched(asked) if user_files_allowed() else _kept_search(asked)


def _searched(asked: ServeQuestion) -> _Offers:
    options: Sequence[ServingOption] = answer_one_pool(asked).options
    front = pareto_front(options)
    quickest: list[ServingOption] = [front[0]]
    for one in sorted(options, key=lambda option: (option.tpot_s, -option.output_tokens_per_s_per_gpu)):
        if one.batch > quickest[-1].batch:
            quickest.append(one)
    return _Offers(tuple(front), tuple(quickest))


#: The same where no file can be read, so that a question has one answer: who moves the success waits for nothing again.
_kept_search = functools.lru_cache(maxsize=512)(_searched)


def _usd(question: ThinkQuestion, way: Way, option: ServingOption) -> float:
    """A task's cost: its prompt once for each answer, and all their tokens."""
    read = question.input_tokens * way.answers * option.usd_per_mtok_input
    written = way.answer_tokens * way.answers * option.usd_per_mtok_output
    return (read + written) / TOKENS_PER_MTOK


def _usd_held(question: ThinkQuestion, way: Way, option: ServingOption) -> float:
    """A task's cost where its answers share a batch: their places are held until the longest one ends."""
    if way.selection in ONE_BY_ONE:
        return _usd(question, way, option)
    read = question.input_tokens * way.answers * option.usd_per_mtok_input
    return (read + way.wait_tokens * way.samples * option.usd_per_mtok_output) / TOKENS_PER_MTOK


def _seconds(way: Way, option: ServingOption) -> float:
    tries = way.answers if way.selection in ONE_BY_ONE else 1.0
    return tries * option.ttft_s + way.wait_tokens * option.tpot_s
