"""The working of a training system and of a forecast: formula, inputs and sources of every figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from computeledger.arrays import Num, Uncertain, sample
from computeledger.economics.hosting.cost import OwnedGpu
from computeledger.facts.load import load_accelerator, load_system
from computeledger.facts.reliability import interruptions_per_gpu_s
from computeledger.frontier.abilities import MIXTURE, Trainable
from computeledger.frontier.decoding import REFERENCE_MODEL, ROLLOUT_TOKENS
from computeledger.frontier.fits import Fit
from computeledger.frontier.forecast import Reached
from computeledger.frontier.growth import Growth
from computeledger.frontier.sites import SiteRow
from computeledger.frontier.steps import RunStep
from computeledger.frontier.systems import REFERENCE, Generation, TrainingSystem
from computeledger.frontier.text import text_facts
from computeledger.physics.calibration.efficiency import median_of
from computeledger.physics.goodput import ASSUMED_ELASTIC, ASSUMED_STOPS
from computeledger.units import DAY_S, MONTH_S, YEAR_S
from computeledger.workloads.result import Figure, Term, fact_term
from computeledger.workloads.serving.search import SLOWEST_TPOT_S

_PER = {"chip": "chip TDP", "it": "IT power per chip", "facility": "facility power per chip",
        "capex": "capital per chip", "rent": "hours of a year", "chips": "1"}  # fmt: skip
#: Where the record of training runs and of sites comes from.
_RECORDS = {"FLOP": "epoch-frontier-models", "W": "epoch-data-centers"}
#: Points that show an input with its range.
_N_SHOWN = 4096
#: What a stop costs, in words, with its unit and how many of its own that has.
_STOP_WORDS = {
    "restart_s": ("restart after a failure", 1.0, "s"),
    "write_s": ("until a checkpoint is usable", 1.0, "s"),
    "pause_s": ("pause for a checkpoint", 1.0, "s"),
    "planned_stops_per_s": ("planned stops a day", DAY_S, ""),
    "straggler_fraction": ("slow hosts add", 1.0, "fraction"),
}


def system_figures(system: TrainingSystem) -> tuple[Figure, ...]:
    """Show where a system's chips, power, money and peaks come from.

    Examples
    --------
    >>> from computeledger.frontier.systems import described_system
    >>> [one.name for one in system_figures(described_system("400 MW facility of gb200-gpu"))][:2]
    ['system.chips', 'system.power_w']
    """
    kinds = system.generations
    units = {"chips": "count", "capex": "USD", "rent": "USD"}
    amounts = tuple(
        Term(f"{one.part.kind} of {one.accelerator.id}", one.part.amount, units.get(one.part.kind, "W"), "plan",
             system.text)
        for one in kinds
    )  # fmt: skip
    chips = tuple(Term(f"chips of {one.accelerator.id}", one.chips, "count") for one in kinds)
    peaks = tuple(
        fact_term(f"peak of {one.accelerator.id}, {name}", one.accelerator.peak_flop_per_s[name])
        for one in kinds
        for name in dict.fromkeys(one.accelerator.native_precision(each) for each in ("bf16", "fp8"))
    )
    h100 = load_accelerator(REFERENCE).peak_flop_per_s
    references = tuple(fact_term(f"peak of {REFERENCE}, {name}", h100[name]) for name in ("bf16", "fp8"))
    memory = tuple(fact_term(f"HBM of {one.accelerator.id}", one.accelerator.hbm_bytes) for one in kinds)
    facts = tuple(term for one in kinds for term in _owned(one))
    formula = " + ".join(f"{one.part.kind} / {_PER[one.part.kind]}" for one in kinds)
    return (
        Figure("system.chips", system.chips, "count", formula, (*amounts, *facts)),
        Figure("system.power_w", system.power_w["facility"], "W", "chips x facility power per chip", (*chips, *facts)),
        Figure("system.capex_usd", system.capex_usd, "USD", "chips x capital per chip", (*chips, *facts)),
        Figure("system.yearly_usd", system.yearly_usd, "USD",
               "chips x (annuity x capital + facility power x electricity + operation)", (*chips, *facts)),
        Figure("system.peak_flop_per_s", system.peak_flop_per_s("bf16"), "FLOP/s", "chips x dense bf16 peak",
               (*chips, *peaks)),
        Figure("system.h100e", system.h100e("bf16"), "count", "peak of all chips / peak of one H100, at one precision",
               (*chips, *peaks, *references)),
        Figure("system.hbm_bytes", system.hbm_bytes, "bytes", "chips x HBM of one", (*chips, *memory)),
    )  # fmt: skip


def _owned(one: Generation) -> tuple[Term, ...]:
    """Facts that power and money of a chip rest on."""
    facts = OwnedGpu(one.accelerator, one.system).facts()
    if one.system is not None:
        facts[f"{one.system.id}.it_w_per_chip"] = one.system.it_w_per_chip
    return tuple(fact_term(name.replace("_", " ").replace("ownership.", ""), fact) for name, fact in facts.items())


def run_figures(
    runs: Mapping[str, Trainable], system: TrainingSystem, given: tuple[float, Num], step_s: Mapping[str, Num | None]
) -> tuple[Figure, ...]:
    """Show where a run's model, tokens, batch and steps come from.

    References
    ----------
    besiroglu-2024; merrill-2025; zhang-2024-critical-batch; morris-2025.

    Examples
    --------
    >>> from computeledger.frontier.abilities import trains
    >>> from computeledger.frontier.systems import described_system
    >>> from computeledger.units import MONTH_S
    >>> system = described_system("1K chips of h100-sxm5-80gb")
    >>> found = run_figures(trains(system, MONTH_S), system, (MONTH_S, 0.4), {"dense": 1.0, "moe": None})
    >>> found[0].name, found[0].formula
    ('dense.flop', 'peak x utilisation x length of the run')
    """
    return tuple(figure for name, run in runs.items() for figure in _run(name, run, (system, *given), step_s[name]))


def _run(name: str, run: Trainable, of: tuple[TrainingSystem, float, Num], step_s: Num | None) -> tuple[Figure, ...]:
    system, length_s, share = of
    sparse = name == "moe"
    work, seen = Term("C", run.flop, "FLOP"), Term("D", run.tokens, "tokens")
    size = Term("N", run.n_params_active, "params")
    law = "besiroglu-2024, optimum of the loss law" + (f", times {MIXTURE.tokens_ratio:g}" if sparse else "")
    ratio = Term("r, tokens per active parameter", run.tokens / run.n_params_active, "", "calibration", law)
    total = Term("total over active parameters", MIXTURE.total_over_active_ratio if sparse else 1.0, "", "assumption",
                 "of the mixture of experts" if sparse else "dense")  # fmt: skip
    grows = "merrill-2025 to 503B tokens; beyond, as zhang-2024-critical-batch"
    batch = Term("critical batch", run.critical_batch_tokens, "tokens", "calibration", grows)
    steps, length = Term("steps", run.steps, ""), Term("length of the run", length_s, "s", "plan", "as asked")
    text = text_facts()
    peak = Term("dense bf16 peak", system.peak_flop_per_s("bf16"), "FLOP/s")
    used = Term("utilisation", share, "fraction", "plan", "as asked")
    out = [
        Figure(f"{name}.flop", run.flop, "FLOP", "peak x utilisation x length of the run", (peak, used, length)),
        Figure(f"{name}.n_params_active", run.n_params_active, "params", "sqrt(C / (6 r))", (work, ratio)),
        Figure(f"{name}.n_params_total", run.n_params_total, "params", "N x total over active", (size, total)),
        Figure(f"{name}.tokens", run.tokens, "tokens", "r N", (ratio, size)),
        Figure(f"{name}.epochs", run.epochs, "", "D / stock of text",
               (seen, fact_term("stock of text", text["stock_tokens"]))),
        Figure(f"{name}.steps", run.steps, "", "D / critical batch", (seen, batch)),
        Figure(f"{name}.step_s_allowed", run.step_s, "s", "length of the run / steps", (length, steps)),
        Figure(f"{name}.absorbs_fraction", run.absorbs_fraction, "fraction",
               "capacity of the parameters / information of a token / stock of text",
               (size, total, fact_term("capacity of a parameter", text["capacity_bits_ratio"]))),
    ]  # fmt: skip
    if step_s is not None:
        found = "operation model of pretraining at the critical batch, best layout on these chips"
        out.append(Figure(f"{name}.step_s", step_s, "s", found, (batch, size)))
    return tuple(out)


def length_figures(
    name: str, run: Trainable, step: RunStep, asked_s: float, per_gpu_year: Uncertain | None = None
) -> tuple[Figure, ...]:
    """Show what the months of a run are made of: those asked, those of its steps beyond, those that failures take.

    References
    ----------
    kokolis-2025.

    Examples
    --------
    >>> from computeledger.frontier.abilities import trains
    >>> from computeledger.frontier.steps import run_steps
    >>> from computeledger.frontier.systems import described_system
    >>> from computeledger.units import MONTH_S
    >>> system = described_system("2048 chips of h100-sxm5-80gb")
    >>> run = trains(system, 4 * MONTH_S)["dense"]
    >>> found = length_figures("dense", run, run_steps(run, system.generations)[1], 4 * MONTH_S)
    >>> found[-1].name, found[-1].formula, round(sum(float(term.value) for term in found[-1].terms[:3]), 2)
    ('dense.calendar_months', 'asked + faster steps + failures', 3.63)
    """
    if step.problem:
        return ()
    asked = Term("months asked", asked_s / MONTH_S, "months", "plan", "as asked")
    busy, whole = step.busy_s / MONTH_S, step.calendar_s / MONTH_S
    pace_is = "slower" if busy * MONTH_S >= asked_s else "faster"
    beyond = Term(f"months for {pace_is} steps", busy - asked_s / MONTH_S, "months")
    lost = Term("months for failures", whole - busy, "months")
    ends = "rates of failures and what a stop costs as they range, steps as measured ones differ from predicted"
    between = tuple(
        Term(said, value / MONTH_S, "months", "figure", ends)
        for said, value in (("least, 90 %", step.calendar_low_s), ("most, 90 %", step.calendar_high_s))
        if np.isfinite(value)
    )
    useful = Term("useful share of the time", step.busy_s / step.calendar_s, "fraction")
    pace = (
        Term("tokens of the run", run.tokens, "tokens"),
        Term("tokens of a step", step.batch_tokens, "tokens", "figure", "the critical batch, in whole sequences"),
        Term("time of a step", step.step_s, "s"),
        Term("its share of bf16 peak", step.mfu_fraction, "fraction", "figure", "operation model of pretraining"),
    )
    slower = Figure(f"{name}.slower_months", beyond.value, "months",
                    "tokens of the run / of a step x its time - asked", (*pace, asked))  # fmt: skip
    elastic = Figure(f"{name}.elastic_months", step.elastic_s / MONTH_S, "months",
                     "months of steps / (exp(-lost / time between failures) x speed / stragglers / planned stops)",
                     (Term("months of steps", busy, "months"), *_elastic(step)))  # fmt: skip
    found = (slower, elastic) if np.isfinite(step.elastic_s) else (slower,)
    if not np.isfinite(whole):
        return found
    return (
        *found,
        Figure(f"{name}.useful_fraction", useful.value, "fraction",
               "1 - stragglers - pauses - lost work - restarts - planned stops, at the medians of the inputs",
               _stops(step, per_gpu_year)),
        Figure(f"{name}.failure_months", lost.value, "months", "months of steps / useful share - months of steps",
               (Term("months of steps", busy, "months", "figure", f"asked, and those for {pace_is} steps"), useful)),
        Figure(f"{name}.calendar_months", whole, "months", f"asked + {pace_is} steps + failures",
               (asked, beyond, lost, *between,
                Term("with elastic recovery", step.elastic_s / MONTH_S, "months", "figure", "rides through failures"))),
    )  # fmt: skip


def _elastic(step: RunStep) -> tuple[Term, ...]:
    """What a failure costs a run that goes on without the part that failed."""
    (lost, lost_why), (speed, speed_why) = (ASSUMED_ELASTIC[name] for name in ("lost_s", "slowed_fraction"))
    return (
        Term("time between failures", step.mean_time_between_failures_s, "s", "figure", "1 / (GPUs x rate)"),
        Term("lost by a failure", sample({"lost": lost}, _N_SHOWN)["lost"], "s", "assumption", lost_why),
        Term("speed meanwhile", median_of(speed), "fraction", "assumption", speed_why),
    )


def _stops(step: RunStep, per_gpu_year: Uncertain | None) -> tuple[Term, ...]:
    """How often a job stops, and what a stop costs."""
    rate = sample({"rate": interruptions_per_gpu_s(per_gpu_year)}, _N_SHOWN)["rate"] * YEAR_S
    known = ("fact", "published runs, from the lowest to the highest")
    costs = tuple(
        Term(said, sample({name: value}, _N_SHOWN)[name] * per, unit, "assumption", why)
        for name, (said, per, unit) in _STOP_WORDS.items()
        for value, why in (ASSUMED_STOPS[name],)
    )
    gpus = float(sum(one.n_gpus for one in step.parts))
    return (
        Term("failures per GPU and year", rate, "", *(known if per_gpu_year is None else ("plan", "as asked"))),
        Term("GPUs", gpus, "count", "figure", "that the layout uses"),
        Term("time between failures", step.mean_time_between_failures_s, "s", "figure", "1 / (GPUs x rate)"),
        *costs,
    )


def served_figures(sampled_tokens_per_s: Num, output_tokens_per_s: Num, fit: Fit) -> tuple[Figure, ...]:
    """Show where the tokens that a system samples and serves come from.

    Examples
    --------
    >>> [one.name for one in served_figures(1.0, 2.0, Fit("deepseek-v3", "h100-nvl8", 1.05))]
    ['rl.sampled_tokens_per_s', 'serves.output_tokens_per_s', 'fits.weights_fraction']
    """
    model = f"{REFERENCE_MODEL}, in fp8"
    rollout = Term("mean rollout", ROLLOUT_TOKENS, "tokens", "assumption", model)
    limit = Term("slowest time per token", SLOWEST_TPOT_S, "s", "assumption", model)
    return (
        Figure("rl.sampled_tokens_per_s", sampled_tokens_per_s, "tokens/s",
               "scale-up domains x rollouts that fit one / step of the operation model of decoding", (rollout,)),
        Figure("serves.output_tokens_per_s", output_tokens_per_s, "tokens/s",
               "chips x output tokens per GPU of serve, within the slowest time per token", (limit,)),
        Figure("fits.weights_fraction", fit.weights_fraction, "fraction",
               f"8-bit weights / memory of a domain, here {fit.model} on {fit.system}; above 1 they do not fit",
               (fact_term("memory of one GPU", load_system(fit.system).accelerator.hbm_bytes),
                fact_term("GPUs of the domain", load_system(fit.system).n_gpus_scale_up))),
    )  # fmt: skip


def reached_figures(reached: Reached) -> tuple[Figure, ...]:
    """Show where the date comes from at which a record reaches a value.

    References
    ----------
    epoch-frontier-models; epoch-data-centers.

    Examples
    --------
    >>> from computeledger.frontier.forecast import run_series, when_reached
    >>> [one.name for one in reached_figures(when_reached(run_series(), 1e28, 100))]
    ['date', 'growth_per_year']
    """
    series = reached.series
    source = _RECORDS[series.unit]
    known = f"{source}, {series.dates[-1]}, the {series.name} known then"
    quarters = f"{source}, fitted here on {len(series.dates)} quarters, {series.dates[0]} to {series.dates[-1]}"
    target = Term("target", reached.target, series.unit, "plan", "as asked")
    largest = Term("largest known", float(series.values[-1]), series.unit, "fact", known)
    growth = Term("growth per year", reached.growth_ratio, "", "calibration", quarters)
    walk = "a line through the logarithms, level and slope uncertain, each path keeping its distance"
    model = (
        walk if reached.model == "trend" else f"{reached.model}: steps of a quarter, their mean and scatter uncertain"
    )
    ahead = float(np.median(reached.years)) - float(series.years[-1])
    until = "from the last known quarter until half of the record's paths are at the target"
    date = Figure("date", ahead, "years", f"{until}; {model}", (target, largest, growth))
    return (
        *((date,) if np.isfinite(ahead) else ()),
        Figure("growth_per_year", reached.growth_ratio, "", f"of the record; {model}", (largest,)),
    )


def growth_figures(fits: Mapping[str, Growth]) -> tuple[Figure, ...]:
    """Show where the growth of each quantity comes from.

    Examples
    --------
    >>> from computeledger.frontier.growth import fitted_growth
    >>> growth_figures(fitted_growth("2022-01-01", "2026-01-01"))[0].unit
    'x'
    """
    formula = "10^slope, least squares of log10 of the records on their dates; interval by Student's t"
    capital, bought = fits["site_usd"].ratio, fits["h100e_per_usd"].ratio

    def source(name: str) -> str:
        return _RECORDS["FLOP" if name == "run_flop" else "W"]

    fitted = (
        Figure(f"growth.{one.name}", one.ratio, "x", formula, (
            Term("least, 90 %", one.low, "x"), Term("most, 90 %", one.high, "x"),
            Term("points", float(one.n), "count", "fact", f"{source(one.name)}, {one.first} to {one.last}"),
            Term("scatter, powers of ten", one.residual_log10, "", "calibration", f"{source(one.name)}, fitted here"),
        ))
        for one in fits.values()
    )  # fmt: skip
    parts = (Term("capital of the largest site", capital, "x"), Term("H100-equivalents per dollar", bought, "x"))
    both = "growth of capital x growth of H100-equivalents per dollar"
    return (*fitted, Figure("growth.system", capital * bought, "x", both, parts))


def site_figures(rows: Sequence[SiteRow], within: tuple[int, int]) -> tuple[Figure, ...]:
    """Show how sites are recomputed from the chips that the files count.

    References
    ----------
    epoch-data-centers; epoch-chip-counts.

    Examples
    --------
    >>> site_figures([], (0, 0))
    ()
    """
    standing = [row for row in rows if not row.projected and row.published.facility_w]
    if not standing:
        return ()
    one = max(standing, key=lambda row: row.published.facility_w or 0.0)
    known = f"{_RECORDS['W']}, {one.published.date}, {one.published.name}"
    reference = load_accelerator(REFERENCE).peak_flop_per_s["fp8"]
    agree, compared = (float(count) for count in within)
    published = Term("published", one.published.h100e_8bit or 0.0, "count", "fact", known)
    power = float(one.published.facility_w or 0.0)
    out = [Figure("sites.facility_w", power, "W", "as published, the largest that stands",
                  (Term("facility power", power, "W", "fact", known),))]  # fmt: skip
    if one.h100e_8bit is not None:
        out.append(Figure("sites.h100e_8bit", one.h100e_8bit, "count", "sum of chips x 8-bit rate / that of one H100",
                          (published, fact_term(f"peak of {REFERENCE}, fp8", reference))))  # fmt: skip
    out.append(Figure("sites.agreement", agree / max(compared, 1.0), "fraction", "recomputed within 10 % / compared",
                      (Term("within", agree, "count"), Term("compared", compared, "count"))))  # fmt: skip
    return tuple(out)
