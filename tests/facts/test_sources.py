"""Every number that ships names a source that exists, and every source is cited by something."""

from __future__ import annotations

import csv
import datetime
import tomllib
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from computeledger.economics.prices.points import open_models
from computeledger.errors import FactError
from computeledger.facts.formats import FORMATS
from computeledger.facts.reading import ASSUMPTION, dimension_of
from computeledger.frontier.closed_models import trained_models
from computeledger.physics.calibration.achieved import measured_kernels
from computeledger.physics.calibration.efficiency import load_factors
from computeledger.physics.calibration.local import load_local
from computeledger.physics.calibration.rl import load_rl_factors
from computeledger.physics.calibration.training import load_training_factors
from computeledger.physics.calibration.weight_sync import sync_mechanisms
from computeledger.sources import load_sources, read_sources
from computeledger.units import DIMENSIONS
from computeledger.workloads.frameworks import framework_ids, load_framework
from computeledger.workloads.rl_frameworks import load_rl_framework, rl_framework_ids

DATA = resources.files("computeledger.facts").joinpath("data")
KINDS = ("accelerators", "nodes", "systems", "prices", "ownership", "tiers", "models")
FILES = [(kind, file) for kind in KINDS for file in DATA.joinpath(kind).iterdir() if file.name.endswith(".toml")]
FILES += [
    ("laws", DATA.joinpath("laws.toml")),
    ("reliability", DATA.joinpath("reliability.toml")),
    ("workloads", DATA.joinpath("workloads.toml")),
    ("structured", DATA.joinpath("structured.toml")),
    ("speculation", DATA.joinpath("speculation.toml")),
    ("images", DATA.joinpath("images.toml")),
    ("usage", DATA.joinpath("usage.toml")),
]
FILES += [("optimizers", DATA.joinpath("optimizers.toml"))]
FILES += [("frontier", DATA.joinpath("frontier", "frontier.toml"))]
FILES += [("observations", resources.files("computeledger.validation.claims").joinpath("observations.toml"))]


def cited(table: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """All tables that carry a source, with their dotted path."""
    if isinstance(table, dict):
        if "source" in table:
            yield path, table
        for key, value in table.items():
            if key != "config_json":
                yield from cited(value, f"{path}.{key}" if path else key)


CITED = [
    (f"{kind}/{file.name}", path, table)
    for kind, file in FILES
    for path, table in cited(tomllib.loads(file.read_text("utf-8")))
]


def _sources_of_tables() -> Iterator[str]:
    """What the rows of shipped tables name as their source."""
    package = Path(str(resources.files("computeledger")))
    for table in package.rglob("*.csv"):
        with table.open(encoding="utf-8", newline="") as lines:
            yield from (
                key
                for row in csv.DictReader(lines)
                for name, key in row.items()
                if key and str(name).endswith("source")
            )


def test_there_are_enough_facts() -> None:
    counts = {kind: sum(1 for name, _ in FILES if name == kind) for kind in KINDS}
    assert counts["accelerators"] >= 100
    assert counts["nodes"] >= 25
    assert counts["systems"] >= 17
    assert counts["models"] >= 45
    assert counts["prices"] >= 2
    assert min(counts["ownership"], counts["tiers"]) >= 1
    assert len(CITED) > 400


def test_every_cited_key_is_a_source() -> None:
    known = {*load_sources(), ASSUMPTION}
    assert {table["source"] for _, _, table in CITED} - known == set()


def test_every_source_is_cited() -> None:
    used = {table["source"] for _, _, table in CITED}
    notes = " ".join(table.get("note", "") for _, _, table in CITED)
    used |= {factor.source for factor in load_training_factors().values()}
    used |= {factor.source for factor in load_rl_factors().values()} | {one.source for one in load_factors().values()}
    used |= {one.source for one in sync_mechanisms().values()}
    used |= {load_rl_framework(one).source for one in rl_framework_ids()}
    used |= {ways.source for one in rl_framework_ids() if (ways := load_rl_framework(one).lora) is not None}
    used |= {load_framework(one).source for one in framework_ids()}
    used |= {model.source for model in open_models().values()}
    used |= {one.source for one in FORMATS.values()} | {load_local().source}
    kernels = [*measured_kernels("compute").values(), *measured_kernels("bandwidth").values()]
    used |= {one.source for rows in kernels for one in rows}
    used |= {one.source for one in trained_models()} | set(_sources_of_tables())
    assert [key for key in load_sources() if key not in used and f"{key})" not in notes] == []


def test_no_fact_lies_in_the_future() -> None:
    today = datetime.date.today().isoformat()
    late = [(name, path) for name, path, table in CITED if table["date"] > today]
    assert late == []


def test_every_fact_says_where_in_the_source() -> None:
    assert [(name, path) for name, path, table in CITED if len(table["locator"]) < 4] == []


def test_every_assumption_gives_its_reason() -> None:
    bare = [
        (name, path) for name, path, table in CITED if table["source"] == ASSUMPTION and len(table.get("note", "")) < 20
    ]
    assert bare == []


def test_units_agree_with_the_names() -> None:
    wrong = [
        (name, path, table["unit"])
        for name, path, table in CITED
        if "unit" in table
        and not path.endswith("_ratio")
        and not any(table["unit"].endswith(spelling) for spelling in DIMENSIONS[dimension_of(path)])
    ]
    assert wrong == []


def test_sources_are_distinct_publications() -> None:
    urls = [(source.url, source.title) for source in load_sources().values()]
    assert len(set(urls)) == len(urls)


GOOD = {"title": "X", "publisher": "Y", "url": "https://example.org", "date": "2024-05"}


@pytest.mark.parametrize(
    "change", [{"title": ""}, {"date": "May 2024"}, {"date": "2999-01-01"}, {"pages": "3"}, {"url": ""}]
)
def test_a_malformed_source_does_not_load(change: dict[str, str]) -> None:
    assert read_sources({"x": GOOD}, "here")["x"].key == "x"
    with pytest.raises(FactError, match="here: source 'x'"):
        read_sources({"x": {**GOOD, **change}}, "here")


def test_a_source_without_a_date_does_not_load() -> None:
    with pytest.raises(FactError, match="date"):
        read_sources({"x": {key: value for key, value in GOOD.items() if key != "date"}}, "here")
