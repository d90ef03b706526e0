"""How often the intervals of an inversion hold what they are about: on sheets of open models, and on made-up ones.

python benchmarks/invert_coverage.py [--made-up] [--sheets 100] [--samples 6000]

A sheet of an open model is inverted with that model left out. How it is really served nobody says, so one way is drawn
from those that its known size and its prices leave: what is tested is that an unknown size costs the intervals what it
should. With ``--made-up`` the way of serving is drawn first, all of them alike, and the prices follow from its cost.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import numpy as np

from computeledger.economics.prices.inversion import PriceClues, invert_prices
from computeledger.economics.prices.markup import (
    Markup,
    adjusted,
    fit_markup,
    gross_margin_fraction,
    known_models,
    log_ratios,
)
from computeledger.economics.prices.physics import SPEED_TARGETS, Served, ServingPrior, cells, rows_of, serve_supposed
from computeledger.economics.prices.points import fit_sizes, shipped_points, without_models
from computeledger.economics.prices.samples import open_kv_bytes, serve_samples
from computeledger.errors import InputError

Case = tuple[str, PriceClues, Served]
KNOWN, FIT, PRIOR = shipped_points(), fit_sizes(shipped_points()), ServingPrior()


def served_open_models(rng: np.random.Generator) -> tuple[np.ndarray, Served, Markup]:
    """Every open model under every way of serving, and price over cost."""
    some = known_models(KNOWN, open_kv_bytes(), 20)[1]
    drawn = serve_samples((some, np.zeros(len(some.n_params_active))), KNOWN, PRIOR, rng, None)
    return drawn.names, drawn.known, fit_markup(KNOWN, FIT, drawn.names, drawn.known)


def open_sheets(rng: np.random.Generator) -> Iterator[Case]:
    """Sheets of open models, each model as often as another, served as its size and prices leave it likely."""
    names, served, markup = served_open_models(rng)
    each, logs = len(served.fits) // len(names), adjusted(KNOWN, FIT)
    while True:
        place = int(rng.integers(len(names)))
        row = int(rng.choice(np.flatnonzero(KNOWN.model == names[place])))
        own = rows_of(served, np.arange(place * each, (place + 1) * each))
        likely = np.where(own.fits, markup.log_likelihood(log_ratios(logs[row], own)), -np.inf)
        weight = np.exp(likely - likely.max())
        chosen = rows_of(own, rng.choice(each, 1, p=weight / weight.sum()))
        prices = float(np.exp(KNOWN.log_input[row])), float(np.exp(KNOWN.log_output[row]))
        yield str(names[place]), PriceClues(*prices, provider=str(KNOWN.provider[row])), chosen


def made_up_sheets(rng: np.random.Generator) -> Iterator[Case]:
    """Open models' sizes, any way of serving that fits, and what is charged above its cost."""
    markup, possible = served_open_models(rng)[2], cells()[1]
    while True:
        names, models = known_models(KNOWN, rng.permutation(open_kv_bytes()), 1)
        place = rng.integers(len(names), size=1)
        where = possible[rng.integers(len(possible))], rng.integers(len(SPEED_TARGETS), size=1)
        served = serve_supposed(rows_of(models, place), where, PRIOR, rng)
        if served.fits[0]:
            above = np.exp(rng.multivariate_normal(markup.mean, markup.covariance))
            prices = float(served.usd_per_mtok_input[0] * above[0]), float(served.usd_per_mtok_output[0] * above[1])
            yield str(names[place[0]]), PriceClues(*prices), served


def ranks(case: Case, samples: int, seed: int) -> dict[str, float]:
    """Share of the posterior below the truth; of the sizes, 0.5 inside the 90 % interval and 0 outside."""
    name, clues, served = case
    found = invert_prices(clues, samples, seed, points=without_models(KNOWN, [name]))
    margin = gross_margin_fraction((clues.usd_per_mtok_input, clues.usd_per_mtok_output), served)
    truth = {"decode_batch": served.batch, "utilization_fraction": served.utilization_fraction,
             "gross_margin_fraction": margin}  # fmt: skip
    out = {key: float(np.mean(getattr(found, key) < value)) for key, value in truth.items()}
    own = KNOWN.where(KNOWN.model == name)
    sizes = {"n_params_active": own.log_active[0], "n_params_total": own.log_total[0]}
    for key, value in sizes.items():
        low, high = np.log(getattr(found, key)["90"])
        out[key] = 0.5 * float(low <= value <= high)
    return out


def main() -> None:
    """Print the share of sheets whose truth lies in the 90 % interval."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--made-up", action="store_true")
    parser.add_argument("--sheets", type=int, default=100)
    parser.add_argument("--samples", type=int, default=6000)
    given = parser.parse_args()
    rng = np.random.default_rng(1)
    cases = (made_up_sheets if given.made_up else open_sheets)(rng)
    rows: list[dict[str, float]] = []
    while len(rows) < given.sheets:
        try:
            rows.append(ranks(next(cases), given.samples, len(rows)))
        except InputError as error:  # a made-up price may be beyond what a sheet may say
            print(f"left out: {error}")
        if rows and (len(rows) % 20 == 0 or len(rows) == given.sheets):
            held = {key: np.mean([0.05 < row[key] < 0.95 for row in rows]) for key in rows[0]}
            print(len(rows), ", ".join(f"{key} {share:.3f}" for key, share in held.items()), flush=True)


if __name__ == "__main__":
    main()
