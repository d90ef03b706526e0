"""One scrape of a server's metrics: the samples that are wanted, by name and labels, and what could not be read."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module, util

from computeledger.actuals.live.names import EngineMetrics, engine_of, wanted_names
from computeledger.errors import InputError
from computeledger.units import LARGEST

#: Labels of a sample, as sorted pairs.
Labels = tuple[tuple[str, str], ...]
#: Samples that a scrape may have of the wanted names, beyond which it is no server's (assumption).
MOST_SCRAPE_SAMPLES = 20_000
_NAME = re.compile(r"[A-Za-z_:][A-Za-z0-9_:]*")


@dataclass(frozen=True, slots=True)
class Scrape:
    """Samples of one moment.

    Attributes
    ----------
    when_s : float
        On a clock that never goes back [s].
    samples : Mapping
        By name, then by labels.
    damaged : int
        Lines of wanted names that are no samples [-].
    """

    when_s: float
    samples: Mapping[str, Mapping[Labels, float]] = field(default_factory=dict)
    damaged: int = 0

    @property
    def engine(self) -> EngineMetrics | None:
        """Whose metrics they are."""
        return engine_of(self.samples)

    def labels(self, name: str) -> set[str]:
        """Values of a label over all samples."""
        return {value for series in self.samples.values() for labels in series for key, value in labels if key == name}


def check_parser() -> None:
    """Refuse to go on without the parser of the text format."""
    for package in ("prometheus_client", "httpx"):
        if util.find_spec(package) is None:
            raise InputError(f"watching a server needs {package}: pip install 'computeledger[watch]'")


def read_scrape(text: str, when_s: float) -> Scrape:
    r"""Read a scrape in Prometheus's text format; lines that are no samples are counted and left out.

    Examples
    --------
    >>> found = read_scrape('vllm:num_requests_running{engine="0"} 3\nvllm:num_requests_waiting{ 2\nother 5\n', 0.0)
    >>> found.samples, found.damaged
    ({'vllm:num_requests_running': {(('engine', '0'),): 3.0}}, 1)
    """
    wanted = wanted_names()
    lines = []
    for line in text.split("\n"):
        named = _NAME.match(line)
        if named is not None and named[0] in wanted:
            lines.append(line)
        if len(lines) > MOST_SCRAPE_SAMPLES:
            raise InputError(f"more than {MOST_SCRAPE_SAMPLES:,} samples: no metrics of one server")
    try:
        return _scrape(_samples("\n".join(lines)), when_s, 0)
    except ValueError:  # one line spoils the rest for the parser: each on its own
        pass
    found, damaged = list[tuple[str, Labels, float]](), 0
    for line in lines:
        try:
            found += _samples(line)
        except ValueError:
            damaged += 1
    return _scrape(found, when_s, damaged)


def _samples(text: str) -> list[tuple[str, Labels, float]]:
    return list(_parsed(text))


def _parsed(text: str) -> Iterator[tuple[str, Labels, float]]:
    # an extra, loaded for this only
    families = import_module("prometheus_client.parser").text_string_to_metric_families(f"{text}\n")
    for family in families:
        for one in family.samples:
            yield one.name, tuple(sorted(one.labels.items())), float(one.value)


def _scrape(found: list[tuple[str, Labels, float]], when_s: float, damaged: int) -> Scrape:
    samples: dict[str, dict[Labels, float]] = {}
    for name, labels, value in found:
        if math.isfinite(value) and 0 <= value <= LARGEST:
            samples.setdefault(name, {})[labels] = value
        elif not math.isnan(value):  # what has no value yet says NaN
            damaged += 1
    return Scrape(when_s, samples, damaged)
