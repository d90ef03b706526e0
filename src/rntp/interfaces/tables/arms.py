"""Tables of a head-to-head: what every arm reached, one of k right, and the differences between arms."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from computeledger.units import format_percent, format_si
from rntp.interfaces.tables.grid import Grid

Row = Mapping[str, Any]


def _nats(value: float) -> str:
    return f"{value:.3f}"


def _points(value: float) -> str:
    return f"{100 * value:+.1f}"


#: Measure -> its head and how it is shown.
_MEASURES: Mapping[str, tuple[str, Callable[[float], str]]] = {
    "right": ("right after a thought", format_percent),
    "right_without": ("right without", format_percent),
    "thought_right": ("thought without a slip", format_percent),
    "gap_closed": ("gap closed", format_percent),
    "own_with_nats": ("own likelihood with [nats]", _nats),
    "own_without_nats": ("without [nats]", _nats),
}
#: Arms that all others are held against: so many after the first, which is the model before.
_REFERENCES = 3


def arm_grid(results: Mapping[str, Any], name: str) -> Grid | None:
    """One of the tables ``arms``, ``searched``, ``arms_coverage``, ``effects`` and ``effects_gap``."""
    if not results.get("means"):
        return None
    if name in ("arms", "searched"):
        return _means(results, searched=name == "searched")
    if name == "arms_coverage":
        return _coverage(results)
    return _effects(results, "right" if name == "effects" else "gap_closed")


def _ends(one: Row, show: Callable[[float], str]) -> str:
    return f"{show(one['low'])} to {show(one['high'])}"


def _means(results: Mapping[str, Any], *, searched: bool) -> Grid | None:
    """What arms reached: mean over seeds, and its 95 % interval where there are several."""
    chosen = [one for one in results["means"] if bool(one["group"]) == searched]
    if not chosen:
        return None
    by = {(one["group"], one["variant"], one["measure"]): one for one in chosen}
    took: dict[tuple[str, str], list[Row]] = {}
    for row in results["rows"]:
        took.setdefault((row["group"], row["variant"]), []).append(row.get("took", {}))
    rows: list[tuple[str, list[tuple[str, str]]]] = []
    for group, variant in dict.fromkeys((one["group"], one["variant"]) for one in chosen):
        cells = []
        for measure, (_, show) in _MEASURES.items():
            found = by[group, variant, measure]
            cells.append((show(found["mean"]), _ends(found, show) if len(found["seeds"]) > 1 else ""))
        rows.append((variant, [*cells, *_took(took[group, variant])]))
    heads = [*(head for head, _ in _MEASURES.values()), "device-time", "steps", "beta in time"]
    return Grid("what the arms reached, mean and 95 % interval", heads, rows)


def _took(some: Sequence[Row]) -> list[tuple[str, str]]:
    """Device-time, steps of next-token training and of RL, and beta."""
    spent = [sum(part["device_s"] for part in one.values()) for one in some]
    steps = [" + ".join(str(part["steps"]) for part in one.values()) for one in some]
    betas = [beta for one in some if (beta := one.get("rl", {}).get("beta_gpu_time")) is not None]
    if not any(spent):
        return [("–", ""), ("–", ""), ("–", "")]
    beta = (f"{sum(betas) / len(betas):.3g}", f"{min(betas):.3g} to {max(betas):.3g}") if betas else ("–", "")
    return [(format_si(sum(spent) / len(spent), "s"), ""), (", ".join(steps), ""), beta]


def _coverage(results: Mapping[str, Any]) -> Grid | None:
    """One of k answers right, and one of k thoughts: means over seeds and their range."""
    found: dict[tuple[str, str], list[Row]] = {}
    for row in results["rows"]:
        for what, curve in row["measured"].get("coverage", {}).items():
            found.setdefault((row["variant"], what), []).append(curve)
    if not found:
        return None
    sizes = list(next(iter(found.values()))[0])
    rows = []
    for (variant, what), curves in found.items():
        cells = []
        for size in sizes:
            values = [one[size] for one in curves]
            ends = f"{format_percent(min(values))} to {format_percent(max(values))}"
            cells.append((format_percent(sum(values) / len(values)), ends))
        rows.append((f"{variant}: {what}", cells))
    return Grid("one of k right", [f"k = {size}" for size in sizes], rows)


def _effects(results: Mapping[str, Any], measure: str) -> Grid | None:
    """Differences in points, paired over documents and seeds, with verdicts."""
    effects = {}
    for one in results["effects"]:
        if one["measure"] == measure and not one["group"]:
            effects[one["variant"], one["against"]] = one
            turned = {"better": "worse", "worse": "better"}.get(one["verdict"], one["verdict"])
            effects[one["against"], one["variant"]] = {
                "mean": -one["mean"], "low": -one["high"], "high": -one["low"], "cohens_d": -one["cohens_d"],
                "verdict": turned,
            }  # fmt: skip
    arms = list(dict.fromkeys(one["variant"] for one in results["means"] if not one["group"]))
    references = arms[1 : 1 + _REFERENCES]
    if not effects:
        return None
    rows = [
        (arm, [_cell(effects[arm, other]) if (arm, other) in effects else ("", "") for other in references])
        for arm in arms
    ]
    title = f"{_MEASURES[measure][0]}: difference in points, 95 % interval, Cohen's d, verdict"
    return Grid(title, [f"against {other}" for other in references], rows)


def _cell(one: Row) -> tuple[str, str]:
    return _points(one["mean"]), f"{_ends(one, _points)}; d {one['cohens_d']:+.2f}; {one['verdict']}"


def arm_grids(results: Mapping[str, Any]) -> Iterator[Grid]:
    """All tables of a head-to-head."""
    for name in ARM_TABLES:
        found = arm_grid(results, name)
        if found is not None:
            yield found


ARM_TABLES = ("arms", "arms_coverage", "effects", "effects_gap", "searched")
