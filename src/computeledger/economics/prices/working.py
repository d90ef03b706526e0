"""The working of what a price sheet reveals: formula, inputs and sources of every figure."""

from __future__ import annotations

import math

from computeledger.economics.prices.inversion import Inversion, PriceClues
from computeledger.economics.prices.markup import INPUT_PER_OUTPUT
from computeledger.economics.prices.physics import SPEED_TARGETS, ServingPrior
from computeledger.economics.prices.points import fit_sizes, shipped_points
from computeledger.workloads.result import Figure, Term

_SERVED = "how a model of that size is served on each chip, precision and speed target, weighed by the prices"


def inversion_figures(found: Inversion, clues: PriceClues) -> tuple[Figure, ...]:
    """Show how the answer of an inversion comes about.

    References
    ----------
    genai-prices; litellm-prices.

    Examples
    --------
    >>> from computeledger.economics.prices.inversion import invert_prices
    >>> clues = PriceClues(3.0, 15.0)
    >>> [one.name for one in inversion_figures(invert_prices(clues, 20_000), clues)][:2]
    ['n_params_active', 'n_params_total']
    """
    uncertainty = f", uncertainty {clues.premium_spread:g}" if clues.premium_spread else ""
    prices = (
        Term("input price", clues.usd_per_mtok_input, "USD/Mtok", "plan", "--input"),
        Term("output price", clues.usd_per_mtok_output, "USD/Mtok", "plan", "--output"),
        Term("premium", clues.premium_ratio, "", "assumption", f"--premium{uncertainty}"),
    )
    return (*_sizes(found, prices), *_served(found, prices[:2]), *_weights(found))


def _sizes(found: Inversion, prices: tuple[Term, ...]) -> tuple[Figure, ...]:
    """Sizes by regression; the interval is the one that left-out models keep."""
    points = shipped_points()
    fit = fit_sizes(points)
    n_models = len(set(points.model.tolist()))
    ground = f"genai-prices, fitted here: {len(points.model)} sheets of {n_models} open models, each model once"
    formula = "exp(a + b ln(input price / premium) + c ln(output price / premium))"
    out = []
    for name, of, ends in (("n_params_active", fit.active, found.n_params_active),
                           ("n_params_total", fit.total, found.n_params_total)):  # fmt: skip
        low, high = ends["90"]
        out.append(Figure(name, ends["median"][0], "params", formula, (
            *prices,
            *(Term(letter, float(value), "", "calibration", ground) for letter, value in zip("abc", of, strict=True)),
            Term("90 % interval over the median, least", low / ends["median"][0], "", "calibration",
                 "conformal: errors of models that were left out of the fit"),
            Term("90 % interval over the median, most", high / ends["median"][0], "", "calibration",
                 "conformal: errors of models that were left out of the fit"),
        )))  # fmt: skip
    return tuple(out)


def _served(found: Inversion, prices: tuple[Term, ...]) -> tuple[Figure, ...]:
    prior, markup = ServingPrior(), found.markup
    size = Term("active parameters", found.size_samples, "params")
    targets = tuple(
        Term(f"time per token, {name}", math.sqrt(low * high), "s", "assumption", f"{low:g}..{high:g} s")
        for name, (low, high) in SPEED_TARGETS.items()
    )
    held = Term("context in the cache", math.sqrt(math.prod(prior.context_tokens)), "tokens", "assumption",
                f"{prior.context_tokens[0]:g}..{prior.context_tokens[1]:g}")  # fmt: skip
    sold = Term("hours sold over hours paid", math.sqrt(math.prod(prior.occupancy_fraction)), "fraction", "assumption",
                f"{prior.occupancy_fraction[0]:g}..{prior.occupancy_fraction[1]:g}")  # fmt: skip
    over = tuple(
        Term(f"{which} price over cost of open models", math.exp(mean), "", "calibration",
             f"genai-prices, {markup.n_sheets} sheets of open models")
        for which, mean in zip(("input", "output"), markup.mean.tolist(), strict=True)
    )  # fmt: skip
    ratio = Term("input tokens for an output token", INPUT_PER_OUTPUT, "", "assumption", "of a margin")
    margin = "1 - (3 input cost + output cost) / (3 input price + output price), costs as serve has them"
    return (
        Figure("kv_bytes_per_token", found.kv_bytes_per_token, "B", "that of open models: prices hardly move it",
               (size,)),
        Figure("decode_batch", found.decode_batch, "", f"largest batch whose step meets the speed target; {_SERVED}",
               (size, held, *targets)),
        Figure("utilization_fraction", found.utilization_fraction, "fraction",
               f"2 N (3 + 1) / (peak x (3 input time + output time)) x hours sold; {_SERVED}", (size, ratio, sold)),
        Figure("gross_margin_fraction", found.gross_margin_fraction, "fraction", margin, (*prices, ratio, *over)),
    )  # fmt: skip


def _weights(found: Inversion) -> tuple[Figure, ...]:
    likely = "prior x likelihood of the prices at its costs, every size counting alike; the weights add up to 1"
    hypotheses = tuple(Term(one.name, one.weight, "fraction") for one in found.hypotheses if one.rejected is None)
    bits = "log2(width of the interval before the prices / width after them)"
    learnt = tuple(Term(name.replace("_", " "), value, "") for name, value in found.learnt.items())
    return (
        Figure("hypotheses", found.effective_samples, "samples", likely,
               tuple(sorted(hypotheses, key=lambda one: -float(one.value))[:10])),
        Figure("bits", sum(found.learnt.values()), "", f"{bits}, of all quantities together", learnt),
    )  # fmt: skip
