"""Workflows, the container and releases: every step that is ours exists, and what can run here is run."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import click
import jsonschema
import pytest
import yaml
from check_jsonschema.builtin_schemas import get_builtin_schema

from computeledger.interfaces.cli import cli
from tests.gates import ROOT, docs_module
from tests.test_release import PROJECT, PYTHONS

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
VERSIONS = docs_module("versions")
_MAKEFILE = (ROOT / "Makefile").read_text("utf-8")
#: Commands of a step besides make.
_ALSO = {"git"}


def workflow(path: Path) -> dict[str, Any]:
    """A workflow; YAML 1.1 reads its key ``on`` as a truth."""
    found: dict[Any, Any] = yaml.safe_load(path.read_text("utf-8"))
    return {"on" if key is True else key: value for key, value in found.items()}


def steps(path: Path) -> list[dict[str, Any]]:
    """Every step of every job."""
    return [step for job in workflow(path)["jobs"].values() for step in job["steps"]]


def makes() -> set[tuple[str, ...]]:
    """What the workflows ask of make."""
    lines = [line for path in WORKFLOWS for step in steps(path) for line in step.get("run", "").splitlines()]
    return {tuple(shlex.split(line)[1:]) for line in lines if line.startswith("make ")}


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_is_one(path: Path) -> None:
    jsonschema.validate(workflow(path), get_builtin_schema("vendor.github-workflows"))
    for step in steps(path):
        assert set(step) & {"uses", "run"}
        assert re.fullmatch(r"[\w/.-]+@[0-9a-f]{40}", step.get("uses", "a@" + "0" * 40)), "an action names a commit"
        for line in step.get("run", "").splitlines():
            assert shlex.split(line)[0] in {"make", *_ALSO}, (
                "what runs is a target of the Makefile, so that it runs here"
            )
    for line in path.read_text("utf-8").splitlines():
        assert "uses:" not in line or re.search(r"# v\d+(\.\d+)+$", line), "a pinned action says its version"
    assert "permissions" in workflow(path)
    assert all("timeout-minutes" in job for job in workflow(path)["jobs"].values())
    assert "secrets." not in path.read_text("utf-8"), "publishing is trusted, not given a secret"


def test_pinned_actions_are_kept_up_to_date() -> None:
    asked = yaml.safe_load((ROOT / ".github" / "dependabot.yml").read_text("utf-8"))
    jsonschema.validate(asked, get_builtin_schema("vendor.dependabot"))
    assert {each["package-ecosystem"] for each in asked["updates"]} == {"github-actions"}


def test_every_target_of_a_workflow_exists() -> None:
    targets = set(re.findall(r"^([a-z][\w-]*):", _MAKEFILE, re.MULTILINE))
    asked = {words[0] for words in makes()}
    assert {"test", "wheel", "sbom", "docs", "docs-version", "nightly", "release-check"} <= asked <= targets
    phony = re.search(r"^\.PHONY: (.+)$", _MAKEFILE, re.MULTILINE)
    assert phony is not None and asked <= set(phony[1].split())
    for words in makes():
        stated = [re.sub(r"\$\w+", "v0.1.0", word) for word in words]
        done = subprocess.run(["make", "-n", "-s", *stated], cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


def test_a_dry_run_of_a_target_runs_nothing(tmp_path: Path) -> None:
    """``make -n`` runs a line that names make itself: what such a line does besides must be harmless."""
    python = tmp_path / "python3"
    python.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    python.chmod(0o755)
    given = ["make", "-n", f"VENV={tmp_path}/venv", "gpu"]
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(given, cwd=ROOT, env=env, capture_output=True, text=True, check=True)
    assert "rntp gpu" in done.stdout and not (tmp_path / "ran").exists()


def test_the_matrix_has_every_python_and_only_publishing_may_ask_for_a_token() -> None:
    jobs = workflow(ROOT / ".github" / "workflows" / "test.yml")["jobs"]
    assert jobs["test"]["strategy"]["matrix"]["python"] == PYTHONS
    release = workflow(ROOT / ".github" / "workflows" / "release.yml")["jobs"]
    assert release["publish"]["permissions"] == {"id-token": "write"} and release["publish"]["needs"] == "build"
    assert release["docs"]["needs"] == "publish", "no documentation of a version that failed its tests"
    others = [job for path in WORKFLOWS for name, job in workflow(path)["jobs"].items() if name != "publish"]
    assert not any("id-token" in str(job) for job in others)


def test_the_citation_has_the_form_of_its_format() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    jsonschema.validate(citation, get_builtin_schema("vendor.citation-file-format"))


def released(folder: Path, changelog: str, version: str = "0.2.0") -> Path:
    """A project at a release."""
    (folder / "pyproject.toml").write_text(f'[project]\nversion = "{version}"\n')
    (folder / "CITATION.cff").write_text(f"title: x\nversion: {version}\n")
    (folder / "CHANGELOG.md").write_text(f"# Changelog\n\n## {changelog}\n")
    return folder


def test_a_tag_is_refused_until_all_name_its_version(tmp_path: Path) -> None:
    assert VERSIONS.problems("v0.2.0", released(tmp_path, "0.2.0 (2026-12-01)")) == []
    assert VERSIONS.problems("v0.2.0", released(tmp_path, "0.2.0 (unreleased)")) == [
        "CHANGELOG.md is not of 0.2.0, released"
    ]
    assert len(VERSIONS.problems("v0.3.0", tmp_path)) == 3
    assert VERSIONS.problems(f"v{PROJECT['version']}") == [f"CHANGELOG.md is not of {PROJECT['version']}, released"]
    for tag in ("0.2.0", "v0.2", "v1.0.0rc1"):
        with pytest.raises(SystemExit, match="such as"):
            VERSIONS.problems(tag)


def test_each_version_keeps_its_documentation_and_the_newest_is_latest(tmp_path: Path) -> None:
    pages, site = tmp_path / "pages", tmp_path / "site"
    with pytest.raises(SystemExit, match="no built site"):
        VERSIONS.put("v0.9.0", site, pages)
    site.mkdir()
    for tag in ("v0.9.0", "v0.10.0", "v0.9.1", "v0.9.1"):
        (site / "index.html").write_text(tag)
        listed = VERSIONS.put(tag, site, pages)
    assert listed == ["0.10.0", "0.9.1", "0.9.0"]
    said = {folder: (pages / folder / "index.html").read_text() for folder in (*listed, "latest")}
    assert said == {"0.10.0": "v0.10.0", "0.9.1": "v0.9.1", "0.9.0": "v0.9.0", "latest": "v0.10.0"}
    assert all(f'href="{one}/"' in (pages / "index.html").read_text() for one in (*listed, "latest"))


def instructions() -> list[tuple[str, str]]:
    """Instructions of the container file, with what each is told."""
    text = re.sub(r"\\\n\s*", "", (ROOT / "Containerfile").read_text("utf-8"))
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in lines)]


def test_the_container_has_no_root_and_starts_a_command_that_exists() -> None:
    told = dict(instructions())  # of several the last counts, as it does in the image
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", told["USER"]), "numbers, so that a cluster can see that it is not root"
    bases = [rest.split()[0] for word, rest in instructions() if word == "FROM"]
    assert all(re.fullmatch(rf"python:({'|'.join(map(re.escape, PYTHONS))})-slim", one) for one in bases)
    for rest in (rest for word, rest in instructions() if word == "COPY" and not rest.startswith("--from")):
        assert all((ROOT / name).exists() for name in rest.split()[:-1])
    extras = re.search(r"'\.\[(.+)\]'", " ".join(rest for word, rest in instructions() if word == "RUN"))
    assert extras is not None and set(extras[1].split(",")) <= set(PROJECT["optional-dependencies"])
    assert json.loads(told["ENTRYPOINT"]) == ["computeledger"]
    name, *arguments = json.loads(told["CMD"])
    # a command keeps the names of its help option from its first context: that of the program has both
    program = click.Context(cli, **cli.context_settings)
    command = cli.get_command(program, name)
    assert command is not None
    options = command.make_context(name, arguments, parent=program).params
    assert (options["host"], options["port"], options["no_browser"]) == ("0.0.0.0", int(told["EXPOSE"]), True)  # noqa: S104 (inside)
    ignored = (ROOT / ".containerignore").read_text("utf-8").split()
    copied = {
        part for word, rest in instructions() if word == "COPY" and "--from" not in rest for part in rest.split()[:-1]
    }
    assert {line[1:] for line in ignored if line.startswith("!")} == copied


def packages(folder: Path, out: Path) -> dict[str, bytes]:
    """What a build of the project writes, by name."""
    done = subprocess.run(
        [sys.executable, "-m", "build", "--outdir", str(out), str(folder)],
        env={**os.environ, "SOURCE_DATE_EPOCH": "1790000000"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return {one.name: one.read_bytes() for one in out.iterdir() if one.is_file()}


@pytest.mark.stress
def test_packages_are_reproducible_and_a_base_install_is_small_and_answers(tmp_path: Path) -> None:
    """Two builds of the sources, in folders of two names, give the same bytes; the wheel is installed and asked."""
    built = []
    for name in ("one", "another"):
        folder = tmp_path / name
        folder.mkdir()
        tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
        subprocess.run(["xargs", "-0", "cp", "--parents", "-t", str(folder)], input=tracked, cwd=ROOT, check=True)
        (folder / ".gitignore").touch()
        built.append(packages(folder, tmp_path / f"{name}-dist"))
    assert built[0] == built[1] and len(built[0]) == 2
    wheel = next((tmp_path / "one-dist").glob("*.whl"))
    downloads, pip = tmp_path / "downloads", [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q"]
    subprocess.run([*pip, "download", "-d", str(downloads), str(wheel)], check=True, capture_output=True)
    sizes = {one.name.partition("-")[0]: one.stat().st_size / 1e6 for one in downloads.iterdir()}
    base = tmp_path / "base"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(base)], check=True)
    install = [
        *pip,
        "--python",
        str(base / "bin" / "python"),
        "install",
        "--no-index",
        "-f",
        str(downloads),
        str(wheel),
    ]
    subprocess.run(install, check=True, capture_output=True)
    whole = sum(one.stat().st_size for one in base.rglob("*") if one.is_file() and not one.is_symlink()) / 1e6
    print(f"base install: {sum(sizes.values()):.1f} MB of packages ({sizes}), {whole:.0f} MB on disk")  # noqa: T201 (what was measured)
    assert sum(sizes.values()) < 60
    asked = ["serve", "--model", "llama-3.1-8b", "--system", "h100-nvl8", "--layout", "tp1", "--batch", "8", "--json"]
    done = subprocess.run(
        [str(base / "bin" / "computeledger"), *asked], cwd=tmp_path, env={"HOME": str(tmp_path)}, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["schema"] == "computeledger/serve/1" and 1e-3 < document["tpot_s"]["p50"] < 20e-3


@pytest.mark.stress
def test_the_bill_of_materials_names_what_a_base_install_has() -> None:
    """``make sbom`` of the wheel that ``make wheel`` left in dist/."""
    if not list((ROOT / "dist").glob("*.whl")):
        pytest.skip("no wheel in dist/: make wheel builds it")
    subprocess.run(["make", "sbom"], cwd=ROOT, check=True, capture_output=True)
    found = json.loads((ROOT / "dist" / "sbom.cdx.json").read_text("utf-8"))
    assert (found["bomFormat"], found["metadata"]["component"]["name"]) == ("CycloneDX", "computeledger")
    names = {one["name"].lower() for one in found["components"]}
    needed = {
        re.split(r"[ ;<>=]", one)[0]
        for one in tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["dependencies"]
    }
    assert needed <= names and "torch" not in names
