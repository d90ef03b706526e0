"""Training logs as measurements: how long a step took, and of what, told apart by the lines that each tool writes.

``step_logs.toml`` holds the lines and the names of settings of Megatron-LM, Megatron-Bridge, NeMo, MaxText, DeepSpeed
and torchtitan, and of whatever prints an MFU: a new tool is an entry there.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path

import numpy as np

from computeledger.errors import InputError
from computeledger.files import bounded_lines, open_user_file
from computeledger.units import KILO, PERCENT

#: Colours of a terminal, as consoles write them into a log.
ESCAPES = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
#: Lines of a log that are warm-up: the first ten, or the first fifth where there are fewer than fifty.
WARM_UP_LINES, WARM_UP_FRACTION = 10, 0.2


#: Factor between the first and the ninth tenth of steady steps beyond which a log is worth a look (assumption).
MOST_SPREAD = 1.15


@dataclass(frozen=True, slots=True)
class Format:
    """What one tool writes of a step."""

    tool: str
    line: re.Pattern[str]


_DATA = tomllib.loads(
    resources.files("computeledger.workloads.pretraining").joinpath("step_logs.toml").read_text("utf-8")
)
_NUMBER = r"[\d.,]+(?:[eE][+-]?\d+)?"
FORMATS = tuple(
    Format(one["tool"], re.compile(one["line"].replace("<", "(?P<").replace("#", _NUMBER), re.IGNORECASE))
    for one in _DATA["formats"]
)
_NAMES = "|".join(re.escape(name).replace("_", "[_-]") for name in (*_DATA["settings"], *_DATA["words"]))
_SETTING = re.compile(
    rf"""(?:^|(?<=[\s,({{'"=-]))({_NAMES})['"]?(?:\s+\.{{2,}}\s+|\s*[:=]\s*|\s{{1,2}})['"]?([\w.+-]+)""", re.IGNORECASE
)
#: torchtitan's own words: the mesh of older and newer releases, the batch, and the model's arguments.
_DEGREES = re.compile(r"\b(pp|dp_replicate|dp_shard|cp|tp|ep)=(\d+)")
_MESH = re.compile(r"device mesh with \[([^\]]*)\], \[([\d, ]*)\]")
_BATCH = re.compile(r"local batch size (\d+), global batch size (\d+)\b.*?sequence length (\d+)")
_SHAPE = re.compile(r"ModelArgs\(.*?\bdim=(\d+), n_layers=(\d+)")


@dataclass(frozen=True, slots=True)
class StepLog:
    """What a log says: of which tool, its settings by key, and of its steady steps the median of each measure.

    ``spread`` is the ninth tenth of the steady steps' time or rate over the first.
    """

    tool: str
    settings: Mapping[str, float] = field(default_factory=dict)
    words: Mapping[str, str] = field(default_factory=dict)
    measures: Mapping[str, float] = field(default_factory=dict)
    n_lines: int = 1
    n_warm_up: int = 0
    spread: float = 1.0

    @property
    def rule(self) -> str:
        """How the measure was taken, in words."""
        if not self.n_warm_up:
            return "its one step" if self.n_lines == 1 else f"the median of {self.n_lines} lines"
        kept = self.n_lines - self.n_warm_up
        apart = f"; eight in ten lie within a factor of {self.spread:.3g}: look at it" * (self.spread > MOST_SPREAD)
        return f"the median of {kept} of {self.n_lines} lines, the first {self.n_warm_up} dropped as warm-up{apart}"


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings that lines of a log state, by key; what was said first holds."""

    numbers: dict[str, float] = field(default_factory=dict)
    words: dict[str, str] = field(default_factory=dict)

    def read(self, line: str) -> None:
        """Keep the settings of a line."""
        for name, value in _SETTING.findall(line):
            given = name.replace("-", "_").lower()
            if (meanings := _DATA["words"].get(given)) is not None:
                word = meanings.get(value.lower()) if len(meanings) > 1 else value
                if word and word.lower() != "default":
                    self.words.setdefault(meanings["key"], word)
            elif (number := _number(value)) is not None:
                self.numbers.setdefault(_DATA["settings"][given], number)
        for key, number in _titan(line):
            self.numbers.setdefault(key, number)

    def whole(self) -> dict[str, float]:
        """The settings, with the GPUs and the batch of the whole job where a log states parts of them."""
        out = dict(self.numbers)
        per_gpu, nodes, devices = (out.pop(name, None) for name in ("sequences_per_gpu", "nodes", "devices"))
        if "gpus" not in out and nodes and devices:
            out["gpus"] = nodes * devices
        if per_gpu and "sequences" not in out and "gpus" in out:
            out["sequences"] = per_gpu * out["gpus"]
        return out


def warm_up_lines(n_lines: int) -> int:
    """Lines at the beginning of a log that do not count: compilation, caches and clocks settle there.

    Parameters
    ----------
    n_lines : int
        Lines that report a step [-].

    Returns
    -------
    int
        The first ten; the first fifth of fewer than fifty; none of one [-].

    Examples
    --------
    >>> [warm_up_lines(n) for n in (1, 2, 12, 50, 4000)]
    [0, 1, 3, 10, 10]
    """
    return 0 if n_lines < 2 else min(WARM_UP_LINES, math.ceil(WARM_UP_FRACTION * n_lines))


def read_step_log(path: str) -> StepLog:
    """Read a training log of any tool that is known.

    Examples
    --------
    >>> read_step_log("nowhere.log")
    Traceback (most recent call last):
    computeledger.errors.InputError: nowhere.log: no such file
    """
    with open_user_file(Path(path)) as stream:
        lines = (raw.decode("utf-8", "replace") for _, raw in bounded_lines(stream) if raw is not None)
        found = log_of(piece for line in lines for piece in line.splitlines())
    if found is None:
        tools = ", ".join(one.tool for one in FORMATS)
        raise InputError(f"{path}: no line of a step of a training log that is known; known are {tools}")
    return found


def log_of(lines: Iterable[str]) -> StepLog | None:
    """Read lines of a log, or nothing where none reports a step.

    Examples
    --------
    >>> log_of(["completed step: 5, seconds: 1.186, TFLOP/s/device: 166.597, Tokens/s/device: 3452.840"]).measures
    {'step': 1.186, 'tokens_per_s_per_gpu': 3452.84}
    >>> log_of(["nothing of a step"]) is None
    True
    """
    settings = Settings()
    steps: dict[str, dict[str, dict[str, float]]] = {}
    forms = FORMATS
    for raw in lines:
        line = ESCAPES.sub("", raw) if "\x1b" in raw else raw
        one = next(((form, found) for form in forms if (found := form.line.search(line))), None)
        if one is None:
            if forms is FORMATS:  # settings stand above the steps
                settings.read(line)
        elif figures := measured(one[1].groupdict()):
            told = steps.setdefault(one[0].tool, {})
            told.setdefault(one[1]["step"] or f"line {len(told)}", figures)  # every rank says the same of a step
            if len(told) == _ENOUGH:
                forms = FORMATS[: FORMATS.index(one[0]) + 1]
    tool = next((form.tool for form in FORMATS if form.tool in steps), None)
    return None if tool is None else _summed(tool, list(steps[tool].values()), settings)


#: Steps of one tool after which its log holds no more settings, nor steps of another.
_ENOUGH = 3


def _summed(tool: str, steps: list[dict[str, float]], settings: Settings) -> StepLog:
    """The steady steps of a log, each measure with its median."""
    kept = steps[warm_up_lines(len(steps)) :]
    named = dict.fromkeys(name for one in kept for name in one)
    medians = {name: float(np.median([one[name] for one in kept if name in one])) for name in named}
    own = settings.whole() | ({"sequences": medians.pop("sequences")} if "sequences" in medians else {})
    low, high = np.quantile([next(iter(one.values())) for one in kept], (0.1, 0.9))
    return StepLog(tool, own, settings.words, medians, len(steps), len(steps) - len(kept), float(high / low))


def measured(found: Mapping[str, str | None]) -> dict[str, float]:
    """Measures of a line in SI units by key of an anchor; none where a number is damaged.

    Examples
    --------
    >>> measured({"step": "7", "ms": "1,500.0", "batch": "64"}), measured({"s": "0.0"})
    ({'step': 1.5, 'sequences': 64.0}, {})
    """
    numbers = {}
    for name, text in found.items():
        if text and name not in ("step", "percent"):
            try:
                numbers[name] = float(text.replace(",", "").rstrip("."))
            except ValueError:
                return {}
    scales = {
        "s": ("step", 1.0), "ms": ("step", 1 / KILO), "rate": ("tokens_per_s_per_gpu", 1.0),
        "samples": ("samples_per_s", 1.0), "batch": ("sequences", 1.0),
        "mfu": ("mfu", 1 / PERCENT if found.get("percent") or numbers.get("mfu", 0.0) > 1 else 1.0),
    }  # fmt: skip
    out = {key: numbers[name] * by for name, (key, by) in scales.items() if 0 < numbers.get(name, 0.0) < math.inf}
    return out if out.keys() - {"sequences"} else {}


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 < value < math.inf else None


def _titan(line: str) -> Iterator[tuple[str, float]]:
    """Settings as torchtitan prints them; its weights are sharded over its ranks."""
    degrees = dict(_DEGREES.findall(line)) if "parallelism:" in line else {}
    if found := _MESH.search(line):
        degrees = dict(zip(re.findall(r"\w+", found[1]), re.findall(r"\d+", found[2]), strict=False))
    if degrees:
        sizes = {name: float(size) for name, size in degrees.items()}
        yield from ((name, sizes[name]) for name in ("tp", "pp", "cp", "ep") if name in sizes)
        yield "gpus", math.prod(size for name, size in sizes.items() if name != "ep")
        if sizes.get("dp_shard", 1.0) > 1:
            yield "zero", 3.0
    if found := _BATCH.search(line):
        yield from zip(("microbatch", "sequences", "sequence"), map(float, found.groups()), strict=True)
    if found := _SHAPE.search(line):
        yield from zip(("hidden", "layers"), map(float, found.groups()), strict=True)
