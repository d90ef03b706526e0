"""Tables of ``rntp study``: a row per variant, the mean over its seeds and their range."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from computeledger.units import format_percent, format_si

Row = Mapping[str, Any]
Value = Callable[[Row], float | None]
#: Group and variant.
Key = tuple[str, str]


def _at(*path: str) -> Value:
    """Value of a row under names, None where it was not measured."""

    def found(row: Row) -> float | None:
        here: Any = row
        for name in path:
            here = here.get(name) if isinstance(here, Mapping) else None
        return here if isinstance(here, int | float) else None

    return found


def _thoughts(when: str, what: str) -> Value:
    return _at("measured", "thoughts", when, what)


def _habit(when: str, where: str) -> Value:
    return _at("measured", "habits", when, where, "thinks_fraction")


def _trained_share(row: Row) -> float | None:
    """Gain of the last tenth of the updates over the gap: what is gained where it was trained."""
    curve = row.get("curve")
    return curve[-1]["gain_nats"] / row["measured"]["gap_nats"] if curve else None


_LEARNT: dict[str, Value] = {
    "gap closed": _at("gap_closed_fraction"),
    "before RL": _at("measured", "intervals", "gap_closed_before_fraction", "mean"),
    "empty": _at("empty_thought_gap_closed_fraction"),
    "lost if swapped": _at("swapped_thought_loss_fraction"),
    "judge": _at("independent_scorer_fraction"),
    "plain training": _at("ntp_equal_time_gap_closed_fraction"),
}
_THOUGHTS: dict[str, Value] = {
    "step by step": _thoughts("after RL", "worked_style_fraction"),
    "right before": _thoughts("before RL", "steps_right_fraction"),
    "right after": _thoughts("after RL", "steps_right_fraction"),
    "cut off": _thoughts("after RL", "truncated_fraction"),
    "gain where trained": _trained_share,
    "own score": _at("measured", "intervals", "own_gap_closed_fraction", "mean"),
    "loss without": _at("measured", "no_thought_loss_change_fraction"),
}
_HABITS: dict[str, Value] = {
    "where it helps, before": _habit("before RL", "helps"),
    "after": _habit("after RL", "helps"),
    "elsewhere, before": _habit("before RL", "elsewhere"),
    "elsewhere, after": _habit("after RL", "elsewhere"),
}
_SHARES: dict[str, Value] = {
    name: _at("phases", phase, "fraction")
    for name, phase in (
        ("generation", "generation"), ("scoring", "thought scoring"), ("baseline", "baseline"), ("update", "update"),
        ("idle", "idle"),
    )
}  # fmt: skip
_BETAS: dict[str, Value] = {"beta in FLOP": _at("beta_flop"), "in device-time": _at("beta_gpu_time")}
_WALL: dict[str, Value] = {"wall": _at("wall_s")}
_SHOWN = (
    ("thoughts, and the model as a predictor", {name: (one, format_percent) for name, one in _THOUGHTS.items()}),
    ("places where it thinks", {name: (one, format_percent) for name, one in _HABITS.items()}),
    (
        "what it took: shares of the device-time of RL",
        {
            **{name: (one, format_percent) for name, one in _SHARES.items()},
            **{name: (one, "{:.3g}".format) for name, one in _BETAS.items()},
            **{name: (one, lambda value: format_si(value, "s")) for name, one in _WALL.items()},
        },
    ),
)


def seeds_of(results: Mapping[str, Any]) -> dict[Key, list[Row]]:
    """Rows by group and variant, in their order."""
    out: dict[Key, list[Row]] = {}
    for row in results["rows"]:
        out.setdefault((row["group"], row["variant"]), []).append(row)
    return out


def spread(values: Sequence[float | None], show: Callable[[float], str]) -> str:
    """Mean over seeds, with the least and the largest in brackets."""
    there = [one for one in values if one is not None]
    if not there:
        return "–"
    mean = show(sum(there) / len(there))
    return mean if len(there) < 2 else f"{mean} ({show(min(there))} to {show(max(there))})"


def against(rows: Sequence[Row], first: Sequence[Row]) -> str:
    """Say whether a variant closes more of the gap than the first one, by the 95 % intervals of all seeds together."""
    low, high, low_first, high_first = (
        pick(row["measured"]["intervals"]["gap_closed_fraction"][end] for row in some)
        for some in (rows, first)
        for pick, end in ((min, "low"), (max, "high"))
    )
    if rows is first:
        return ""
    return "more" if low > high_first else "less" if high < low_first else "within noise"


def print_study(results: Mapping[str, Any]) -> None:
    """Print what each variant learnt, how it thinks, and what it took."""
    console = Console()
    grouped = seeds_of(results)
    first = next(iter(grouped.values()))
    seeds = len({row["seed"] for row in results["rows"]})
    title = f"{results['name']}: {seeds} seeds, {results['places']} held-out places"
    compared = {key: against(rows, first) for key, rows in grouped.items()}
    learnt = {name: (one, format_percent) for name, one in _LEARNT.items()}
    _table(console, title, grouped, learnt, compared if len(grouped) > 1 else None)
    for what, columns in _SHOWN:
        _table(console, what, grouped, columns)
    _coverage(console, grouped)


def _table(
    console: Console,
    title: str,
    grouped: Mapping[Key, Sequence[Row]],
    columns: Mapping[str, tuple[Value, Callable[[float], str]]],
    compared: Mapping[Key, str] | None = None,
) -> None:
    """A table of the columns that were measured at all."""
    every = [row for rows in grouped.values() for row in rows]
    there = {name: one for name, one in columns.items() if any(one[0](row) is not None for row in every)}
    if not there:
        return
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("")
    for name in (*there, *(("beside the first",) if compared else ())):
        table.add_column(name, justify="right")
    last = ""
    for key, rows in grouped.items():
        if key[0] != last:
            table.add_row(f"[bold]{key[0]}[/]")
        last = key[0]
        cells = [spread([value(row) for row in rows], show) for value, show in there.values()]
        table.add_row(key[1], *cells, *((compared[key],) if compared else ()))
    console.print(table)


def _coverage(console: Console, grouped: Mapping[Key, Sequence[Row]]) -> None:
    """pass@k before and after, where many thoughts were sampled."""
    for (_, variant), rows in grouped.items():
        found = [row["measured"]["coverage"] for row in rows if row["measured"].get("coverage", {}).get("before")]
        if not found:
            continue
        sizes = list(found[0]["before"])
        table = Table(
            title=f"one of k thoughts right: {variant}", title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0)
        )
        for place, name in enumerate(["", *(f"k = {size}" for size in sizes)]):
            table.add_column(name, justify="right" if place else "left")
        for when in ("before", "after"):
            table.add_row(f"{when} RL", *(spread([one[when][size] for one in found], format_percent) for size in sizes))
        console.print(table)
        crossed = [one["crossover"] for one in found]
        said = ", ".join("never" if one is None else f"k = {one}" for one in crossed)
        console.print(f"as many solved before RL as after, by seed: {said}")
