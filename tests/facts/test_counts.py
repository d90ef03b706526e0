"""Parameters counted from configurations against published figures: those of the facts, and those that stand in names.

A figure agrees where it lies within 1 % (3 % for active parameters), or is the count rounded or cut off, as names do.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

from computeledger.facts.architecture import Model
from computeledger.facts.catalog import model_ids
from computeledger.facts.load import load_model
from computeledger.physics.transformer import (
    n_params_active,
    n_params_active_with_embeddings,
    n_params_total,
)
from computeledger.units import MULTIPLIERS

COUNTS: dict[str, dict[str, Any]] = tomllib.loads(Path(__file__).with_name("counts.toml").read_text("utf-8"))
TOTAL_WITHIN, ACTIVE_WITHIN = 0.01, 0.03
_NAMED = re.compile(r"(?i)(?:^|[-_])(\d+(?:\.\d+)?)B(?:-A(\d+(?:\.\d+)?)B)?(?=$|[-_])")


def published(model_id: str, model: Model) -> dict[str, str]:
    """Total and active parameters as published, each as it is written: ``32.8 B``, ``1.6 T``."""
    out = {name: fact.given.removesuffix(" params") for name, fact in model.published.items() if "n_params" in name}
    named = _NAMED.search(model_id.split("/")[1])
    if named is not None:
        out.setdefault("n_params_total", f"{named[1]} B")
        if named[2] and model.is_moe:
            out.setdefault("n_params_active", f"{named[2]} B")
    return out


def agrees(counts: list[float], written: str, within: float) -> bool:
    """Whether one of the ways to count agrees with a figure, or gives it rounded or cut off."""
    number, unit = written.split()
    value, step = float(number), 10.0 ** -len(number.partition(".")[2])
    scaled = [one / MULTIPLIERS[unit] for one in counts]
    return any(abs(one / value - 1) <= within or -0.5 * step <= one - value < step for one in scaled)


def misses(model_id: str) -> dict[str, str]:
    """Published figures of a model that its configuration does not give."""
    model = load_model(model_id)
    stated = published(model_id, model)
    ways = {
        "n_params_total": ([float(n_params_total(model))], TOTAL_WITHIN),
        "n_params_active": (
            [float(n_params_active(model)), float(n_params_active_with_embeddings(model))],
            ACTIVE_WITHIN,
        ),
    }
    return {name: written for name, written in stated.items() if not agrees(ways[name][0], written, ways[name][1])}


def test_every_published_count_is_given_or_explained() -> None:
    found = {model_id: sorted(misses(model_id)) for model_id in model_ids()}
    missed = {model_id: names for model_id, names in found.items() if names}
    explained = {model_id: sorted(entry) for model_id, entry in COUNTS["exceptions"].items()}
    assert missed == explained
    assert all(len(reason) > 20 for entry in COUNTS["exceptions"].values() for reason in entry.values())


def test_at_least_a_hundred_real_configurations_are_checked() -> None:
    checked = [model_id for model_id in model_ids() if published(model_id, load_model(model_id))]
    assert len(checked) >= 150
    shapes = {(load_model(one).layers, load_model(one).hidden_size) for one in checked}
    assert len(shapes) >= 100
