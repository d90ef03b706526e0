"""The published table of accuracy: every measured figure beside what was predicted with its source left out.

``computeledger accuracy --data FOLDER --write FOLDER`` writes it; nothing in it is typed by hand. A row says what was
left out for its prediction: its whole source, a fifth of all points, the model, or nothing.
"""

from __future__ import annotations

import csv
import functools
import hashlib
import io
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources

import numpy as np

from computeledger.physics.calibration.local import local_engines
from computeledger.validation.compare import Array, Comparison

#: What a figure is told by; then what was measured, and the quantiles of the prediction.
LABELS = (
    "workload", "tuning", "class", "left_out", "source", "url", "id", "accelerator", "engine", "model", "load",
    "statistic", "quantity", "unit",
)  # fmt: skip
QUANTILE_COLUMNS = ("p05", "p10", "p50", "p90", "p95")
COLUMNS = (*LABELS, "measured", *QUANTILE_COLUMNS)
#: What is left out of the recipes' points for a new deployment; the same points stand with a fifth left out too.
NEW_PAIR = "model on system"
LEFT_OUT = ("source", "a fifth", NEW_PAIR, "configuration", "model", "nothing")
#: The one column that is not written but told by the model.
FAMILY = "family"
WORKLOADS = ("serving", "local", "training", "rl", "memory")
#: Parts of the table, a file each: the workload and, of serving, whose deployments.
PARTS = {
    "serving": ("serving", "usual"),
    "local": ("local", ""),
    "recipes": ("serving", "recipe"),
    "training": ("training", ""),
    "rl": ("rl", ""),
    "memory": ("memory", ""),
}
#: Fitted constants that each part was predicted with.
_RESTS_ON = {
    "serving": ("serving.toml",),
    "local": ("local.toml",),
    "recipes": ("serving.toml",),
    "training": ("training.toml",),
    "rl": ("rl.toml", "serving.toml", "training.toml"),
    "memory": ("training.toml",),
}
#: How a server was loaded: clients that hold requests in flight, all requests at once, one static batch.
LOAD_KINDS = ("clients", "burst", "static")
#: Where a median and both ends of two intervals stand among as many evenly spread quantiles.
_N_QUANTILES = 21
_PLACES = (0.0, 0.05, 0.1, 0.5, 0.9, 0.95, 1.0)
_SIZE = re.compile(
    r"[-_ ](?:a?\d+(?:\.\d+)?x?\d*[bmt]\b|fp8|nvfp4|instruct|base|chat|hf|v0\.\d|a\d+b|\d+e\b).*", re.IGNORECASE
)
#: A model of which a source says the size alone, and what such models are called together.
_BARE, UNNAMED = re.compile(r"\d+(?:\.\d+)?[MBT]", re.IGNORECASE), "shape from its size"
_HOME = "computeledger.validation.accuracy"


@functools.cache
def family_of(model: str) -> str:
    """The series that a model is of: its name without publisher, size and format.

    Examples
    --------
    >>> [family_of(one) for one in ("meta-llama/Meta-Llama-3.1-405B", "nvidia/Qwen3.6-27B-NVFP4", "gpt-oss-20b", "5B")]
    ['Llama-3.1', 'Qwen3.6', 'gpt-oss', 'shape from its size']
    """
    name = model.rpartition("/")[2].removeprefix("Meta-")
    return UNNAMED if _BARE.fullmatch(name) else _SIZE.sub("", name)


def _families(models: Iterable[str]) -> dict[str, str]:
    """Family by model, each spelt as most of the models spell it."""
    found = Counter(map(family_of, models))
    usual = {one.casefold(): one for one, _ in reversed(found.most_common())}
    return {model: usual[family_of(model).casefold()] for model in models}


@dataclass(frozen=True, slots=True)
class Published:
    """Rows of the table, and when they were predicted."""

    rows: Sequence[Mapping[str, str]]
    date: str = ""

    def chosen(self, **wanted: Sequence[str]) -> Published:
        """Rows of which each named column has one of the values.

        Examples
        --------
        >>> table = Published([{"engine": "vllm"}, {"engine": "sglang"}])
        >>> len(table.chosen(engine=["vllm"]).rows), len(table.chosen(engine=[]).rows)
        (1, 2)
        """
        asked = {name: frozenset(values) for name, values in wanted.items() if values}
        kept = [row for row in self.rows if all(row[name] in values for name, values in asked.items())]
        return Published(kept, self.date)

    def promised(self, left_out: str | None = None) -> Published:
        """Rows by what was left out; each figure once, as an interval promises it, where nothing is said.

        Examples
        --------
        >>> table = Published([{"left_out": "a fifth"}, {"left_out": NEW_PAIR}])
        >>> len(table.promised().rows), len(table.promised(NEW_PAIR).rows)
        (1, 1)
        """
        kept = [row for row in self.rows if (row["left_out"] == left_out if left_out else row["left_out"] != NEW_PAIR)]
        return Published(kept, self.date)


def published(workload: str = "", tuning: str = "") -> Published:
    """Read the table that the package ships: all of it, or the parts of a workload and of a tuning of serving.

    Examples
    --------
    >>> {row["workload"] for row in published("rl").rows}
    {'rl'}
    """
    parts = [
        name for name, (of, whose) in PARTS.items() if workload in ("", of) and (not whose or tuning in ("", whose))
    ]
    found = [shipped_part(name) for name in parts]
    return Published([row for one in found for row in one.rows], max(one.date for one in found))


@functools.cache
def shipped_part(name: str) -> Published:
    """Read one of the shipped parts."""
    return read_part(resources.files(_HOME).joinpath(f"{name}.csv").read_text("utf-8"))


def read_part(text: str) -> Published:
    r"""Read a part: what all its rows share in the first line, then a table.

    Examples
    --------
    >>> read_part('# {"date": "2026-11-23", "shared": {"engine": "vllm"}}\nmodel\nQwen/Qwen3-8B\n').rows
    [{'engine': 'vllm', 'model': 'Qwen/Qwen3-8B', 'family': 'Qwen3'}]
    """
    about, _, table = text.partition("\n")
    said = json.loads(about.removeprefix("# "))
    lines = csv.reader(io.StringIO(table, newline=""))
    columns = next(lines)
    rows = [said["shared"] | dict(zip(columns, line, strict=True)) for line in lines]
    families = _families([row["model"] for row in rows])
    for row in rows:
        row[FAMILY] = families[row["model"]]
    return Published(rows, said["date"])


def part_text(rows: Sequence[Mapping[str, str]], about: Mapping[str, str]) -> str:
    """Write a part: columns that are the same in all rows stand once, above the table.

    Examples
    --------
    >>> row = dict.fromkeys(COLUMNS, "1")
    >>> read_part(part_text([row, row | {"model": "Qwen/Qwen3-8B"}], {"date": "2026-11-23"})).rows[1]["engine"]
    '1'
    """
    shared = {name: rows[0][name] for name in LABELS if len({row[name] for row in rows}) == 1}
    out = io.StringIO()
    out.write(f"# {json.dumps({**about, 'shared': shared})}\n")
    columns = [name for name in COLUMNS if name not in shared]
    writer = csv.DictWriter(out, columns, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def shipped_key(name: str) -> str:
    """What the constants of a part were when it was written."""
    about = resources.files(_HOME).joinpath(f"{name}.csv").read_text("utf-8").partition("\n")[0]
    return str(json.loads(about.removeprefix("# "))["constants"])


def constants_key(name: str) -> str:
    """Fingerprint of the shipped constants and intervals that a part rests on; dates and comments do not count.

    Examples
    --------
    >>> constants_key("serving") == constants_key("recipes") != constants_key("local")
    True
    """
    home = resources.files("computeledger.physics.calibration")
    digest = hashlib.sha256()
    for file in _RESTS_ON[name]:
        lines = home.joinpath(file).read_text("utf-8").splitlines()
        digest.update("\n".join(one for one in lines if not one.startswith(("date = ", "#"))).encode())
    return digest.hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Errors:
    """Predictions beside measurements of one quantity; ``bias`` is the median of the signed errors."""

    n: int
    sources: int
    median_abs_error: float
    bias: float
    coverage_90: float


def errors_of(rows: Sequence[Mapping[str, str]]) -> Errors:
    """Set predictions of a quantity beside its measurements.

    Examples
    --------
    >>> row = {"source": "s", "p05": "1", "p50": "2", "p95": "3", "measured": "4"}
    >>> errors_of([row, {**row, "measured": "2"}])
    Errors(n=2, sources=1, median_abs_error=0.25, bias=-0.25, coverage_90=0.5)
    """
    low, middle, high, measured = (
        np.array([float(row[name]) for row in rows]) for name in ("p05", "p50", "p95", "measured")
    )
    signed = middle / measured - 1
    held = np.mean((low <= measured) & (measured <= high))
    sources = len({row["source"] for row in rows})
    return Errors(len(rows), sources, float(np.median(np.abs(signed))), float(np.median(signed)), float(held))


@dataclass(frozen=True, slots=True)
class Alike:
    """How well measurements like a question were predicted, each left out of the fit.

    ``what`` they share beside the ``load`` is tuning, engine and chip, or fewer of them where there are few. ``by`` has
    the errors of each quantity that tells of the answer and was measured often enough: the time per output token and
    rates, that with the most figures first, then the time to the first token. ``n`` and ``sources`` count the figures
    of these; ``tpot`` and ``ttft`` are median errors. ``steps`` are of all times per output token and rates together.
    """

    workload: str
    what: str
    load: str
    n: int
    sources: int
    steps: Errors
    tpot: float | None
    ttft: float | None
    by: Mapping[str, Errors]


#: Figures that make a slice, and that a median error needs.
FEWEST_FIGURES, FEWEST_TIMES = 8, 4


@functools.cache
def measured_alike(tuning: str, engine: str, accelerator: str, load: str = "clients") -> Alike | None:
    """Find the measurements that are most like a question: of the engine on the chip, else of the engine, else any.

    Examples
    --------
    >>> found = measured_alike("recipe", "vllm", "h100-sxm5-80gb")
    >>> found.what, found.n > 100, found.steps.median_abs_error < 0.2
    ('recipe vllm h100-sxm5-80gb', True, True)
    """
    labels = {"tuning": tuning, "engine": engine, "accelerator": accelerator}
    workload = "local" if engine in local_engines() else "serving"
    table = published(workload, tuning).chosen(load=[load]).promised()
    for depth in (3, 2, 1):
        names = list(labels)[:depth]
        rows = table.chosen(**{name: [labels[name]] for name in names}).rows
        told = _told_by(rows)
        counted = [row for row in rows if row["quantity"] in told]
        if len(rows) >= FEWEST_FIGURES and set(told) - {"ttft"}:
            what = " ".join(labels[name] for name in names)
            steps = errors_of([row for row in kinds_of(rows) if row["quantity"] == "step"])
            known = {name: errors_of([row for row in rows if row["quantity"] == name]) for name in told}
            medians = {name: known[name].median_abs_error if name in known else None for name in ("tpot", "ttft")}
            sources = len({row["source"] for row in counted})
            return Alike(workload, what, load, len(counted), sources, steps, by=known, **medians)
    return None


def _told_by(rows: Sequence[Mapping[str, str]]) -> list[str]:
    """Quantities that tell of an answer and were measured often enough: those of its speed, then the first token."""
    counts = Counter(row["quantity"] for row in rows)
    known = sorted((-n, name != "tpot", name) for name, n in counts.items() if n >= FEWEST_TIMES)
    of_steps = {name for name, (kind, _) in _KINDS.items() if kind == "step"}
    return [*(name for *_, name in known if name in of_steps), *(name for *_, name in known if name == "ttft")]


def comparison_of(rows: Sequence[Mapping[str, str]]) -> Comparison:
    """Rows of the table as predictions beside measurements, for every summary and plot of such.

    Examples
    --------
    >>> row = dict.fromkeys(COLUMNS, "1") | {"quantity": "tpot", "p95": "2", "measured": "4"}
    >>> made = comparison_of([row])
    >>> made.measured["tpot"].tolist(), np.quantile(made.predicted["tpot"], [0.5, 0.95], axis=1).ravel().tolist()
    ([4.0], [1.0, 2.0])
    """
    names = list(dict.fromkeys(row["quantity"] for row in rows))
    levels = np.array([[float(row[name]) for name in QUANTILE_COLUMNS] for row in rows]).reshape(
        -1, len(QUANTILE_COLUMNS)
    )
    measured = np.array([float(row["measured"]) for row in rows])
    quantities = np.array([row["quantity"] for row in rows])
    clouds = cloud_of(levels)
    return Comparison(
        rows=rows,
        measured={name: np.where(quantities == name, measured, np.nan) for name in names},
        predicted=dict.fromkeys(names, clouds),
        skipped={},
        units={row["quantity"]: row["unit"] for row in rows},
    )


def kinds_of(rows: Sequence[Mapping[str, str]]) -> list[Mapping[str, str]]:
    """The same rows as times of two kinds: of steps, whatever rate or time tells of them, and to the first token.

    Examples
    --------
    >>> row = dict.fromkeys(QUANTILE_COLUMNS, "4") | {"p95": "8", "measured": "2"}
    >>> row["quantity"] = "output_tokens_per_s_per_gpu"
    >>> made = kinds_of([row])[0]
    >>> made["quantity"], made["measured"], made["p05"], made["p95"]
    ('step', '0.5', '0.125', '0.25')
    """
    return [_as_time(row) if row["quantity"] in _KINDS else row for row in rows]


#: What each quantity of serving tells of, and whether it is a rate.
_KINDS = {
    "tpot": ("step", False),
    "request_latency": ("step", False),
    "output_tokens_per_s_per_gpu": ("step", True),
    "total_tokens_per_s_per_gpu": ("step", True),
    "decode_output_tokens_per_s_per_gpu": ("step", True),
    "ttft": ("ttft", False),
    "input_tokens_per_s_per_gpu": ("ttft", True),
}


def _as_time(row: Mapping[str, str]) -> Mapping[str, str]:
    kind, is_rate = _KINDS[row["quantity"]]
    if not is_rate:
        return {**row, "quantity": kind}
    turned = {
        name: f"{1 / float(row[other]):.6g}"
        for name, other in zip(QUANTILE_COLUMNS, QUANTILE_COLUMNS[::-1], strict=True)
    }
    return {**row, **turned, "quantity": kind, "measured": f"{1 / float(row['measured']):.6g}"}


def cloud_of(levels: Array) -> Array:
    """Samples whose 5, 10, 50, 90 and 95 % quantiles are given.

    Examples
    --------
    >>> np.quantile(cloud_of(np.array([[1.0, 2.0, 4.0, 8.0, 16.0]])), [0.05, 0.1, 0.5, 0.9, 0.95]).tolist()
    [1.0, 2.0, 4.0, 8.0, 16.0]
    """
    ends = np.concatenate([levels[:, :1], levels, levels[:, -1:]], axis=1)
    shares = np.linspace(0, 1, _N_QUANTILES)
    return np.array([np.interp(shares, _PLACES, one) for one in ends]).reshape(len(levels), _N_QUANTILES)
