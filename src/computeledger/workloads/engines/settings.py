"""What an engine can be told when it starts, by the field of a question, and what it takes by itself."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING, Any

from computeledger.workloads.engines.releases import release_numbers

if TYPE_CHECKING:
    from computeledger.facts.schema import Accelerator


@dataclass(frozen=True, slots=True)
class Default:
    """What an engine takes where nobody says anything, from a release on and on some chips."""

    value: float
    source: str
    since: str = ""
    least_bytes: float = 0.0
    chips: Sequence[str] = ()
    chips_not: Sequence[str] = ()

    def holds(self, engine: str, chip: Accelerator | None, version: str | None) -> bool:
        """Whether it is that of a release, the newest where none is named, on a chip, or on any."""
        asked = None if version is None else release_numbers(engine, version)
        since = release_numbers(engine, self.since) if self.since else None
        is_late = asked is None or since is None or asked >= since
        if chip is None:
            return is_late and not (self.chips or self.least_bytes)
        is_of_chip = not self.chips or any(name in chip.id for name in self.chips)
        is_of_chip = is_of_chip and not any(name in chip.id for name in self.chips_not)
        return is_late and is_of_chip and chip.usable_bytes >= self.least_bytes


@dataclass(frozen=True, slots=True)
class Setting:
    """One thing that an engine can be told."""

    option: str
    of: str = ""
    defaults: tuple[Default, ...] = ()


@functools.cache
def settings_of(engine: str) -> Mapping[str, Setting]:
    """What an engine can be told, by the field of a question.

    Examples
    --------
    >>> settings_of("vllm")["max_batch"].option, sorted(settings_of("mlx"))
    ('--max-num-seqs', ['max_batch'])
    """
    found = _file().get(engine, {})
    return {name: _setting(table) for name, table in found.items()}


def default_of(engine: str, name: str, chip: Accelerator | None = None, version: str | None = None) -> Default | None:
    """What an engine's release takes of a setting on a chip; None where it is not known.

    Examples
    --------
    >>> from computeledger.facts.load import load_accelerator
    >>> h100, a100 = (load_accelerator(one) for one in ("h100-sxm5-80gb", "a100-sxm4-80gb"))
    >>> [default_of("vllm", "max_batch", *one).value for one in ((h100, None), (a100, None), (h100, "0.8.5"))]
    [1024, 256, 256]
    """
    setting = settings_of(engine).get(name)
    rows = () if setting is None else setting.defaults
    return next((one for one in rows if one.holds(engine, chip, version)), None)


def _setting(table: Mapping[str, Any]) -> Setting:
    rows: list[Mapping[str, Any]] = table.get("defaults", [])
    return Setting(table["option"], table.get("of", ""), tuple(Default(**row) for row in rows))


@functools.cache
def _file() -> Mapping[str, Any]:
    text = resources.files("computeledger.workloads.engines").joinpath("settings.toml").read_text("utf-8")
    return tomllib.loads(text)
