"""Answer what a system of chips, power, money or buildings has, costs, trains and serves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from computeledger.arrays import Range, Uncertain, median
from computeledger.errors import InputError, shown
from computeledger.facts.load import load_model
from computeledger.facts.reliability import interruptions_per_gpu_s
from computeledger.fields import Given
from computeledger.frontier.abilities import MIXTURE, Trainable, trains
from computeledger.frontier.decoding import (
    INPUT_TOKENS,
    OUTPUT_TOKENS,
    REFERENCE_MODEL,
    ROLLOUT_TOKENS,
    Reinforces,
    Serves,
    reinforces,
    serves,
)
from computeledger.frontier.epoch_files import COPY_DATE, shipped_sites
from computeledger.frontier.fits import MODELS, SYSTEMS, Fit, weights_fractions
from computeledger.frontier.power_clue import PowerClue, read_clue
from computeledger.frontier.steps import SEQUENCE_TOKENS, RunStep, run_model, run_steps
from computeledger.frontier.systems import TrainingSystem, described_system, flop_per_month
from computeledger.frontier.text import text_facts
from computeledger.frontier.working import (
    length_figures,
    run_figures,
    served_figures,
    system_figures,
)
from computeledger.physics.calibration.efficiency import median_of
from computeledger.questions.answer import Answer, from_python
from computeledger.questions.answers.frontier import document as documents
from computeledger.questions.document import document
from computeledger.questions.frontier import (
    SystemsQuestion,
)
from computeledger.questions.grounds import figure_document
from computeledger.questions.wording import point
from computeledger.units import MONTH_S, YEAR_S
from computeledger.workloads.result import Figure, quantity
from computeledger.workloads.serving.search import SLOWEST_TPOT_S


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class SystemsAnswer(Answer):
    """What a system has, costs, trains, does RL with, and serves."""

    question: SystemsQuestion
    system: TrainingSystem
    runs: Mapping[str, Trainable]
    steps: Mapping[str, Sequence[RunStep]]
    rl: Sequence[Reinforces]
    served: Sequence[Serves]
    fits: Sequence[Fit]
    clue: PowerClue | None = None

    def contents(self, *, working: bool = False) -> dict[str, Any]:
        """As ``computeledger frontier systems --json`` prints it."""
        utilization, duration = median_of(self.question.utilization), median_of(self.question.duration)
        system, runs = self.system, self.runs
        found = documents.system_document(system)
        monthly = flop_per_month(system, utilization)
        found["first_site"] = first_site(point(found["power_w"]["facility"]))
        found["flop_per_month"] = {one: quantity(value, "FLOP") for one, value in monthly.items()}
        found["trains"] = {"months": duration / MONTH_S, "utilization_fraction": utilization, "precision": "bf16"}
        found["trains"] |= {name: documents.timed_run_document(run, self.steps[name]) for name, run in runs.items()}
        found |= documents.decoding_document(self.rl, self.served)
        stock = text_facts()["stock_tokens"]
        tokens = quantity(stock.value, "tokens")
        found["text"] = {"stock_tokens": tokens, "low": stock.low, "high": stock.high}
        found["fits"] = [document(one) for one in self.fits]
        found["assumptions"] = _assumed(utilization, self.question.interruptions_per_gpu_year)
        if self.clue is not None:
            found["power_clue"] = document(self.clue)
        if working:
            steps = {name: found["trains"][name]["step_s"] for name in runs}
            own = len(system.generations)
            sampled = sum((one.sampled_tokens_per_s for one in self.rl[:own]), start=0.0)
            sold = sum((one.output_tokens_per_s for one in self.served[:own]), start=0.0)
            first = next(one for one in self.fits if one.model == REFERENCE_MODEL)
            found["working"] = [figure_document(one) for one in (
                *system_figures(system), *run_figures(dict(runs), system, (duration, utilization), steps),
                *(figure for name, run in runs.items() for figure in self._length(name, run, duration)),
                *served_figures(sampled, sold, first),
            )]  # fmt: skip
        return found

    def _length(self, name: str, run: Trainable, asked_s: float) -> tuple[Figure, ...]:
        """The working of a run's months at the median of its critical batch."""
        step = next(one for one in self.steps[name] if one.batch_over_critical == 1)
        return length_figures(name, run, step, asked_s, self.question.interruptions_per_gpu_year)


def first_site(facility_w: float) -> dict[str, Any] | None:
    """The first known site of so much power: its name, since when, and whether that is a projection; none without one.

    Examples
    --------
    >>> first_site(300e6)["date"], first_site(1e12)
    ('2025-02-17', None)
    """
    held = [one for one in shipped_sites() if one.facility_w is not None and one.facility_w >= facility_w]
    if not held:
        return None
    first = min(held, key=lambda one: one.date)
    return {"name": first.name, "date": first.date, "is_projected": first.date > COPY_DATE}


def systems(question: SystemsQuestion | None = None, /, **given: Given) -> SystemsAnswer:
    """What a system of chips, power, money or buildings has, costs, trains and serves.

    Parameters
    ----------
    question : SystemsQuestion, optional
        What is asked; keywords change single fields of it.
    **given : str, float or Range
        Fields of :class:`~computeledger.questions.frontier.SystemsQuestion`: texts with units, or numbers in SI units.

    Returns
    -------
    SystemsAnswer
        The system, the runs that fill its time with their steps, RL, serving, and which models fit.

    Raises
    ------
    InputError
        For a text that describes no system, and for less than one chip.

    Examples
    --------
    >>> run = systems(spec="1K chips of h100-sxm5-80gb", samples=16).runs
    >>> bool(run["dense"].n_params_active < run["moe"].n_params_total)
    True
    """
    return from_python(SystemsQuestion, answer_systems, question, given)


def answer_systems(question: SystemsQuestion) -> SystemsAnswer:
    """Answer ``computeledger frontier systems``."""
    clue = read_clue(question.spec)
    system = described_system(question.spec if clue is None else clue.spec, question.samples, question.seed)
    if median(system.chips) < 1:
        raise InputError(f"{shown(question.spec)}: that is less than one chip")
    runs = trains(system, median_of(question.duration), median_of(question.utilization))
    models = [load_model(REFERENCE_MODEL), *(run_model(run, name) for name, run in runs.items())]
    names = [one.system.id for one in system.generations if one.system is not None]
    return SystemsAnswer(
        question=question,
        system=system,
        runs=runs,
        steps={
            name: run_steps(run, system.generations, name, question.interruptions_per_gpu_year)
            for name, run in runs.items()
        },
        rl=[reinforces(model, one) for model in models for one in system.generations],
        served=[serves(model, one) for model in models for one in system.generations],
        fits=weights_fractions([*MODELS, *models[1:]], list(dict.fromkeys([*names, *SYSTEMS]))),
        clue=clue,
    )


def _assumed(utilization: float, per_gpu_year: Uncertain | None) -> dict[str, Any]:
    rate = interruptions_per_gpu_s(per_gpu_year)
    low, high = (rate.low, rate.high) if isinstance(rate, Range) else (median_of(rate),) * 2
    ends = {"low": low, "median": median_of(rate), "high": high}
    return {
        "interruptions_per_gpu_year": {name: value * YEAR_S for name, value in ends.items()},
        "utilization_fraction": utilization,
        "sequence_tokens": SEQUENCE_TOKENS,
        "reference_model": REFERENCE_MODEL,
        "served_tpot_s": SLOWEST_TPOT_S,
        "served_input_tokens": INPUT_TOKENS,
        "served_output_tokens": OUTPUT_TOKENS,
        "mean_rollout_tokens": ROLLOUT_TOKENS,
        "moe_total_over_active_ratio": MIXTURE.total_over_active_ratio,
        "moe_tokens_ratio": MIXTURE.tokens_ratio,
        "moe_compute_ratio": MIXTURE.compute_ratio,
    }
