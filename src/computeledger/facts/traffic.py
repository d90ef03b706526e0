"""Named workloads: how long requests are, and how unevenly they arrive, as published traces and benchmarks have it."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass

from computeledger.distributions import Spread, spread_of_quantiles
from computeledger.facts.catalog import shipped_file
from computeledger.facts.reading import read_facts, read_file
from computeledger.facts.schema import Fact


@dataclass(frozen=True, slots=True)
class NamedWorkload:
    """What was published about the requests of a trace or a benchmark."""

    id: str
    name: str
    facts: Mapping[str, Fact]

    def lengths(self, side: str) -> Spread:
        """How ``input`` or ``output`` tokens differ from request to request [token]."""
        known = {name.removeprefix(f"{side}_"): one for name, one in self.facts.items() if name.startswith(f"{side}_")}
        if "low_tokens" in known:
            low, high = known["low_tokens"].value, known["high_tokens"].value
            return Spread((low + high) / 2, "uniform", (low, high))
        shares = {
            float(found[1]) / 100: one.value for name, one in known.items() if (found := re.match(r"p([\d.]+)_", name))
        }
        return spread_of_quantiles(shares)

    def value(self, name: str) -> float | None:
        """One figure; None where it was not published."""
        return self.facts[name].value if name in self.facts else None


@functools.cache
def named_workloads() -> Mapping[str, NamedWorkload]:
    """Every named workload by id.

    Examples
    --------
    >>> chat = named_workloads()["azure-conv-2023"]
    >>> round(chat.lengths("input").mean), chat.facts["input_mean_tokens"].value
    (1140, 1154.7)
    """
    document = read_file(shipped_file("workloads.toml"), shipped=True)
    out = {}
    for key, table in document.table.items():
        facts = {name: value for name, value in table.items() if name != "name"}
        out[key] = NamedWorkload(key, str(table["name"]), read_facts(document, key, facts))
    return out


@dataclass(frozen=True, slots=True)
class Usage:
    """How often the users of a product ask it."""

    name: str
    n_messages_per_week: Fact
    n_weekly_users: Fact

    @property
    def requests_per_user_per_day(self) -> float:
        """Messages of one user of the week a day, each taken as a request [1/day]."""
        return self.n_messages_per_week.value / self.n_weekly_users.value / 7


@functools.cache
def chatgpt_usage() -> Usage:
    """What was published of ChatGPT's users.

    Examples
    --------
    >>> round(chatgpt_usage().requests_per_user_per_day, 2)
    3.67
    """
    document = read_file(shipped_file("usage.toml"), shipped=True)
    table = dict(document.table["chatgpt"])
    name = str(table.pop("name"))
    return Usage(name, **read_facts(document, "chatgpt", table))
