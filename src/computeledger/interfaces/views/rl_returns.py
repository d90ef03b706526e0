"""The views of beta in published RL runs, and of what RL buys by a reader's own points."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from computeledger.interfaces.view import Cell, Table, Tile, View
from computeledger.questions.answer import Answer
from computeledger.questions.answers.rl.returns import CoverageAnswer, PublishedAnswer, RewardAnswer
from computeledger.questions.wording import headline_words, percent, words
from computeledger.units import format_si

_RUNS = ("model", "hardware", "mode", "tokens #", "step #", "beta FLOP #", "beta GPU-time #", "modelled #",
         "parts of the modelled beta")  # fmt: skip
#: Parts of a modelled beta that are listed, the largest first.
_MOST_PARTS = 3


def view(answer: Answer, working: bool) -> View:  # noqa: ARG001 (these answers have no working)
    """Of published runs, or of a fit."""
    return replace(_VIEWS[type(answer).__name__](answer), overline="rl")


def _published(answer: PublishedAnswer) -> View:
    document = answer.to_dict()
    rows, spread = document["published"], document["beta_gpu_time"]
    median, low, high = (f"{spread[name]:.0f}" for name in ("p50", "min", "max"))
    return View(
        title="Beta of published runs",
        headline=headline_words(f"{len(rows)} published RL steps", f"beta in GPU-time {median}, from {low} to {high}"),
        context="A pretraining token counts 6.",
        main="beta_gpu_time",
        tiles=(Tile("Beta in GPU-time", median, f"{low} to {high}", key="beta_gpu_time"),),
        tables=(
            Table(
                "Published steps",
                _RUNS,
                [_run_row(one) for one in rows],
                "published",
                drops=(_RUNS[-1], "tokens", "beta FLOP"),
            ),
        ),
        grounds=(document["convention"],),
        tile_heading="median, and all of them",
    )


def _run_row(one: dict[str, Any]) -> list[str]:
    largest = sorted(one["by_phase"].items(), key=lambda pair: -pair[1])[:_MOST_PARTS]
    parts = ", ".join(f"{name} {format_si(value)}" for name, value in largest)
    return [
        one["model"],
        f"{one['hardware']} x {one['n_gpus']:,.0f}",
        f"{one['mode']}, {one['precision']}",
        f"{one['mean_tokens']:.0f}",
        words(one["step_s"], "s"),
        *(f"{one[name]:.{digits}f}" for name, digits in _BETAS.items()),
        parts + ("" if one["split_stated"] else " (split from the recipe)"),
    ]


_BETAS = {"beta_flop": 1, "beta_gpu_time": 0, "modelled_beta_gpu_time": 0}


def _reward(answer: RewardAnswer) -> View:
    document = answer.to_dict()
    rows: list[list[str | Cell]] = [
        [law, name, Cell(format_si(value), below=_ends(one["intervals"][name], format_si))]
        for law, one in document["reward"].items()
        for name, value in one["values"].items()
    ]
    at = answer.at
    found = {} if at is None else {law: one for law, one in document["forecast"].items() if law != "compute"}
    first, last = map(format_si, document["points_reach"])
    said = [f"{one['p50']:.3f} by the {law}" for law, one in found.items()]
    return View(
        title="What RL buys",
        headline=headline_words(
            "The reward of more RL",
            f"{' and '.join(said)} at compute {format_si(at)}" if at is not None else f"{len(rows)} fitted parameters",
        ),
        tiles=tuple(
            Tile(f"Reward, {law}", f"{one['p50']:.3f}", _ends(one, "{:.3f}".format), key=f"forecast.{law}")
            for law, one in found.items()
        ),
        tables=(Table("Fitted laws", ("law", "parameter", "value #"), rows, "reward"),),
        grounds=(f"the points reach from {first} to {last}; beside a value, its 90 % interval",),
    )


def _ends(one: dict[str, float], say: Callable[[float], str]) -> str:
    return f"{say(one['p05'])} to {say(one['p95'])}"


def _coverage(answer: CoverageAnswer) -> View:
    document = answer.to_dict()
    fit, at = document["coverage"], document.get("forecast")
    rows = [[f"{one['k']:g}", percent(one["coverage"])] for one in document["pass_at_k"]]
    return View(
        title=f"coverage = exp({fit['a']:.3g} k^{fit['b']:.3g})",
        headline=headline_words(
            "Coverage by samples",
            f"residual of the fit {percent(fit['residual'])}"
            if at is None
            else f"{percent(at['coverage'])} of the problems are solved at {at['k']:g} samples",
        ),
        context=" ".join(_crossing(document)),
        tables=(Table("pass@k", ("k #", "coverage #"), rows, "pass_at_k"),),
        grounds=(f"residual of the fit: {percent(fit['residual'])} of coverage",),
    )


def _crossing(document: dict[str, Any]) -> list[str]:
    """Where the base model overtakes the trained one, if there is one."""
    if "trained" not in document:
        return []
    met = document["crossing"]
    if met is None:
        return ["The curves of base and trained model do not cross: one leads at every number of samples."]
    where = ", beyond the points: an extrapolation" if met["beyond_points"] else ""
    ahead, other = ("base", "trained") if met["ahead_beyond"] == "base" else ("trained", "base")
    share = percent(met["coverage"])
    return [
        f"From {met['k']:.3g} samples on the {ahead} model solves more than the {other} one ({share} there{where})."
    ]


_VIEWS: dict[str, Callable[[Any], View]] = {
    "PublishedAnswer": _published,
    "RewardAnswer": _reward,
    "CoverageAnswer": _coverage,
}
