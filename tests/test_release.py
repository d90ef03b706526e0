"""What a release says of itself agrees with the project: versions, Pythons, citation."""

from __future__ import annotations

import re
import tomllib

import pytest
import yaml

from tests.gates import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
#: Minor versions of Python 3 that are supported.
PYTHONS = [
    one.rpartition(" ")[2]
    for one in PROJECT["classifiers"]
    if re.fullmatch(r"Programming Language :: Python :: 3\.\d+", one)
]


def test_supported_pythons_are_the_same_everywhere() -> None:
    assert PROJECT["requires-python"] == f">={PYTHONS[0]}"
    assert [int(one.partition(".")[2]) for one in PYTHONS] == list(range(11, 11 + len(PYTHONS))), "in order, no gap"
    text = (ROOT / "Makefile").read_text("utf-8")
    looked_for = re.search(r"for python in python3 (.+); do", text)
    assert looked_for is not None
    assert looked_for[1].split() == [f"python{one}" for one in reversed(PYTHONS)]
    assert f"{PYTHONS[0]} to {PYTHONS[-1]} are supported" in (ROOT / "docs" / "stability.md").read_text("utf-8")


def test_the_citation_is_of_this_version() -> None:
    said = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert {"cff-version", "message", "title", "authors"} <= set(said), "what the format requires"
    assert str(said["version"]) == PROJECT["version"]
    assert [one["name"] for one in said["authors"]] == [one["name"] for one in PROJECT["authors"]]
    assert said["keywords"] == PROJECT["keywords"] and said["license"] in PROJECT["license"].split(" AND ")
    assert f"## {PROJECT['version']} (" in (ROOT / "CHANGELOG.md").read_text("utf-8")


@pytest.mark.parametrize("name", ["answers", "run_ledger"])
def test_the_stability_page_leads_to_the_published_schemas(name: str) -> None:
    file = f"{name}.schema.json"
    page = (ROOT / "docs" / "stability.md").read_text("utf-8")
    assert f"[{file}]({file})" in page and (ROOT / "docs" / file).exists()
