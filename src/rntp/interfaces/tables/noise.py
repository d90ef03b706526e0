"""Tables of a study of noise: what was closed at each level, and how well a law of few constants says so."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from computeledger.units import format_percent
from rntp.interfaces.tables.grid import Grid

Results = Mapping[str, Any]
#: Measure of a table, and its title.
_SHOWN = {
    "noise": ("gap_closed", "gap closed on text without noise"),
    "noise_thoughts": ("thought_right", "thoughts without a slip, on text without noise"),
}
NOISE_TABLES = (*_SHOWN, "noise_fit", "noise_constants")
_CONSTANTS = {
    "ceiling": "most that is closed, G", "updates": "updates, x_0", "shape": "shape, a",
    "exponent": "exponent of a thought's worth, c", "visits": "visits, V",
}  # fmt: skip


def noise_grid(results: Results, name: str) -> Grid | None:
    """One of :data:`NOISE_TABLES`; None where the study has no fit."""
    if "fit" not in results:
        return None
    if name == "noise_fit":
        return _forms(results["fit"])
    return _constants(results["fit"]) if name == "noise_constants" else _levels(results, *_SHOWN[name])


def noise_grids(results: Results) -> Iterator[Grid]:
    """All of them."""
    for name in NOISE_TABLES:
        found = noise_grid(results, name)
        if found is not None:
            yield found


def _level(setting: Mapping[str, Any]) -> str:
    if setting["text_noise"]:
        return f"text {format_percent(setting['text_noise'])}"
    return f"label {format_percent(setting['label_noise'])}" if setting["label_noise"] else "none"


def _data(setting: Mapping[str, Any]) -> str:
    positions = f"{setting['positions']} positions" if setting["positions"] else "all new"
    return f"{setting['reward']}, {setting['updates']} updates, {positions}"


def _levels(results: Results, measure: str, title: str) -> Grid:
    """A row per reward and data, a column per level of noise."""
    settings = {row["variant"]: row["setting"] for row in results["rows"] if row["setting"]}
    found = {one["variant"]: one for one in results["means"] if one["measure"] == measure}
    order = sorted(settings.values(), key=lambda one: (one["text_noise"], one["label_noise"]))
    heads = list(dict.fromkeys(map(_level, order)))
    cells: dict[str, dict[str, tuple[str, str]]] = {}
    for variant, setting in settings.items():
        low, high = (pick(found[variant]["by_seed"]) for pick in (min, max))
        ends = f"{format_percent(low).partition(' ')[0]} to {format_percent(high).partition(' ')[0]}"
        cells.setdefault(_data(setting), {})[_level(setting)] = (format_percent(found[variant]["mean"]), ends)
    rows = [(name, [some.get(head, ("", "")) for head in heads]) for name, some in cells.items()]
    return Grid(f"{title}, by noise in the text that RL reads", heads, rows)


def _points(value: float | None) -> tuple[str, str]:
    return ("–" if value is None else f"{100 * value:.1f}", "")


def _forms(fit: Mapping[str, Any]) -> Grid:
    """Errors of the law with its exponent fitted and fixed, in points; levels left out."""
    levels = list(fit["forms"][0]["left_out_by_level"])
    rows = []
    for one in fit["forms"]:
        name = "exponent fitted" if one["exponent"] is None else f"exponent {one['exponent']:g}"
        by_level = [_points(one["left_out_by_level"][level]) for level in levels]
        rows.append((name, [_points(one["rms"]), _points(one["left_out_rms"]), *by_level]))
    heads = ["fitted", "left out", *(f"label {format_percent(float(level))} left out" for level in levels)]
    return Grid("the law of noise: root mean squared error in points of the gap", heads, rows)


def _constants(fit: Mapping[str, Any]) -> Grid:
    """Constants of the law, and what was measured beside."""
    rows = [(said, [(f"{fit['constants'][name]:.3g}", "")]) for name, said in _CONSTANTS.items()]
    rows += [
        (f"label noise at which a right thought earns nothing, {name}", [(format_percent(value), "")])
        for name, value in fit["worthless_label_noise"].items()
    ]
    rows += [
        ("spread of seeds around their mean, points", [_points(fit["seed_rms"])]),
        ("error at text noise, which no fit has seen, points", [_points(fit["text_rms"])]),
    ]
    return Grid("the law of noise: constants", ["value"], rows)
