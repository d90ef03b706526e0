"""Tables of ``rntp study``, for terminal and page: a row per variant, the mean over its seeds and their range."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from rich import box
from rich.text import Text

from computeledger.interfaces.fitting import FittingTable, Page
from computeledger.units import format_percent, format_si
from rntp.interfaces.tables.arms import ARM_TABLES, arm_grid, arm_grids
from rntp.interfaces.tables.grid import Grid
from rntp.interfaces.tables.noise import NOISE_TABLES, noise_grid, noise_grids

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
    """Gain of the last tenth of the updates over the gap: what is gained where it was trained; in nats alone."""
    curve = None if any(one.startswith("reward.name") for one in row["set"]) else row.get("curve")
    return curve[-1]["gain_nats"] / row["measured"]["gap_nats"] if curve else None


_LEARNT: dict[str, Value] = {
    "gap closed": _at("gap_closed_fraction"),
    "before RL": _at("measured", "intervals", "gap_closed_before_fraction", "mean"),
    "empty": _at("empty_thought_gap_closed_fraction"),
    "swapped": _at("swapped_thought_loss_fraction"),
    "judge": _at("independent_scorer_fraction"),
    "plain": _at("ntp_equal_time_gap_closed_fraction"),
}
_THOUGHTS: dict[str, Value] = {
    "step by step": _thoughts("after RL", "worked_style_fraction"),
    "right before": _thoughts("before RL", "steps_right_fraction"),
    "right after": _thoughts("after RL", "steps_right_fraction"),
    "cut off": _thoughts("after RL", "truncated_fraction"),
    "trained on": _trained_share,
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
_BETAS: dict[str, Value] = {"beta in FLOP": _at("beta_flop"), "in time": _at("beta_gpu_time")}
_WALL: dict[str, Value] = {"wall": _at("wall_s")}


def _seconds(value: float) -> str:
    return format_si(value, "s")


def _short(value: float) -> str:
    return f"{value:.3g}"


Columns = Mapping[str, tuple[Value, Callable[[float], str]]]
#: Tables by the name that a page asks for: title and columns.
TABLES: dict[str, tuple[str, Columns]] = {
    "learnt": ("what was learnt", {name: (one, format_percent) for name, one in _LEARNT.items()}),
    "thoughts": (
        "thoughts, and the model as a predictor",
        {name: (one, format_percent) for name, one in _THOUGHTS.items()},
    ),
    "habits": ("places where it thinks", {name: (one, format_percent) for name, one in _HABITS.items()}),
    "took": (
        "what it took: shares of the device-time of RL",
        {
            **{name: (one, format_percent) for name, one in _SHARES.items()},
            **{name: (one, _short) for name, one in _BETAS.items()},
            **{name: (one, _seconds) for name, one in _WALL.items()},
        },
    ),
}


def seeds_of(results: Mapping[str, Any]) -> dict[Key, list[Row]]:
    """Rows by group and variant, in their order."""
    out: dict[Key, list[Row]] = {}
    for row in results["rows"]:
        out.setdefault((row["group"], row["variant"]), []).append(row)
    return out


def spread(values: Sequence[float | None], show: Callable[[float], str]) -> tuple[str, str]:
    """Mean over seeds; and the least and the largest, where there are two, without a unit that all share."""
    there = [one for one in values if one is not None]
    if not there:
        return "–", ""
    mean, *ends = (show(one) for one in (sum(there) / len(there), min(there), max(there)))
    if len({text.partition(" ")[2] for text in (mean, *ends)}) == 1:
        ends = [text.partition(" ")[0] for text in ends]
    return mean, " to ".join(ends) if len(there) > 1 else ""


def against(rows: Sequence[Row], first: Sequence[Row]) -> str:
    """Say whether a variant closes more of the gap than the first one, by the 95 % intervals of all seeds together."""
    if rows is first:
        return ""
    ends = [
        [row["measured"]["intervals"]["gap_closed_fraction"][end] for row in some]
        for some in (rows, first)
        for end in ("low", "high")
    ]
    if any(one is None for some in ends for one in some):
        return "no interval"
    low, high, low_first, high_first = (pick(some) for pick, some in zip((min, max, min, max), ends, strict=True))
    return "more" if low > high_first else "less" if high < low_first else "within noise"


def grid(results: Mapping[str, Any], name: str) -> Grid | None:
    """One of the tables, ``kinds`` or ``coverage``, of the columns that were measured; None where none was."""
    if name in ARM_TABLES:
        return arm_grid(results, name)
    if name in NOISE_TABLES:
        return noise_grid(results, name)
    grouped = seeds_of(results)
    if name == "coverage":
        return _coverage(grouped)
    if name == "kinds":
        return _kinds(grouped)
    title, columns = TABLES[name]
    there = {head: one for head, one in columns.items() if any(one[0](row) is not None for row in results["rows"])}
    if not there:
        return None
    first = next(iter(grouped.values()))
    compares = name == "learnt" and len(grouped) > 1
    rows: list[tuple[str, list[tuple[str, str]]]] = []
    last = ""
    for (group, variant), some in grouped.items():
        if group != last:
            rows.append((group, []))
        last = group
        cells = [spread([value(row) for row in some], show) for value, show in there.values()]
        rows.append((variant, [*cells, *([(against(some, first), "")] if compares else [])]))
    return Grid(title, [*there, *(["beside first"] if compares else [])], rows)


def _kinds(grouped: Mapping[Key, Sequence[Row]]) -> Grid:
    """Gap closed by kind of document, or by family where there are several."""
    every = [row for some in grouped.values() for row in some]
    heads = list(dict.fromkeys(kind.partition("/")[0] for row in every for kind in row["measured"]["by_kind"]))
    rows = [
        (variant, [spread([_closed(row, head) for row in some], format_percent) for head in heads])
        for (_, variant), some in grouped.items()
    ]
    return Grid("gap closed by kind of document", heads, rows)


def _closed(row: Row, head: str) -> float | None:
    """Mean over the kinds of a name, by their places."""
    kinds = [one for kind, one in row["measured"]["by_kind"].items() if kind.partition("/")[0] == head]
    places = sum(one["places"] for one in kinds)
    return sum(one["places"] * one["gap_closed_fraction"] for one in kinds) / places if places else None


def _coverage(grouped: Mapping[Key, Sequence[Row]]) -> Grid | None:
    """pass@k before and after, where many thoughts were sampled."""
    rows, sizes = [], []
    for (_, variant), some in grouped.items():
        found = [row["measured"]["coverage"] for row in some if row["measured"].get("coverage", {}).get("before")]
        if not found:
            continue
        sizes = list(found[0]["before"])
        for when in ("before", "after"):
            cells = [spread([one[when][size] for one in found], format_percent) for size in sizes]
            rows.append((f"{variant}, {when} RL", [*cells, ("", "")]))
        crossed = ["never" if one["crossover"] is None else str(one["crossover"]) for one in found]
        rows[-1][1][-1] = (", ".join(crossed), "")
    head = [*(f"k = {size}" for size in sizes), "as many before, from k"]
    return Grid("one of k thoughts right", head, rows) if rows else None


def grids(results: Mapping[str, Any]) -> Iterator[Grid]:
    """All tables of a study that have something to say."""
    if "means" in results:
        yield from noise_grids(results) if "fit" in results else arm_grids(results)
        return
    for name in (*TABLES, "coverage"):
        found = grid(results, name)
        if found is not None:
            yield found


def print_study(results: Mapping[str, Any]) -> None:
    """Print what each variant learnt, how it thinks, and what it took."""
    console = Page()
    seeds = len({row["seed"] for row in results["rows"]})
    said = (
        f"{results['name']}: {results['places']} held-out places; means over up to {seeds} seeds, beneath their range"
    )
    console.print(said)
    print_grids(console, grids(results))


def print_grids(console: Page, some: Iterable[Grid]) -> None:
    """Print tables, the range of a mean beneath it."""
    for one in some:
        table = FittingTable(title=one.title, box=box.SIMPLE_HEAD)
        for place, name in enumerate(["", *one.head]):
            table.add_column(name, justify="right" if place else "left", overflow="fold")
        for name, cells in one.rows:
            shown = [f"{text}\n{ends}" if ends else text for text, ends in cells]
            table.add_row(name if cells else Text(name, style="bold"), *shown)
        console.print(table)


def markdown(one: Grid) -> str:
    """The table for a page."""
    lines = [f"| | {' | '.join(one.head)} |", "|---" * (len(one.head) + 1) + "|"]
    for name, cells in one.rows:
        shown = [f"{text} ({ends})" if ends else text for text, ends in cells] or [""] * len(one.head)
        lines.append(f"| {name if cells else f'*{name}*'} | {' | '.join(shown)} |")
    return "\n".join(lines)
