"""Releases and their documentation: what a tag must agree with, and the built site in a folder of its version.

``check v1.0.0``: the tag, the package, the citation and the changelog name one version. ``put v1.0.0 site PAGES``: the
site becomes PAGES/1.0.0, PAGES/latest where it is the newest, and a line of the list of versions.
"""

from __future__ import annotations

import re
import shutil
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)")


def numbers(version: str) -> tuple[int, ...]:
    """Parts of a version, in the order of versions."""
    found = _VERSION.fullmatch(version)
    if found is None:
        raise SystemExit(f"{version!r}: expected three numbers, such as 1.0.0")
    return tuple(map(int, found.groups()))


def version_of(tag: str) -> str:
    """The version that a tag names."""
    version = tag.removeprefix("v")
    numbers(version)
    if not tag.startswith("v"):
        raise SystemExit(f"{tag!r}: a tag is a version with a v before it, such as v{version}")
    return version


def problems(tag: str, root: Path = ROOT) -> list[str]:
    """What does not agree with a tag."""
    version = version_of(tag)
    package = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    said = {"pyproject.toml": package == version}
    said["CITATION.cff"] = f"\nversion: {version}\n" in (root / "CITATION.cff").read_text("utf-8")
    dated = rf"^## {re.escape(version)} \(\d{{4}}-\d\d-\d\d\)$"
    said["CHANGELOG.md"] = re.search(dated, (root / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE) is not None
    return [f"{name} is not of {version}, released" for name, agrees in said.items() if not agrees]


def put(tag: str, site: Path, pages: Path) -> list[str]:
    """The site as the documentation of a version; gives all versions, newest first."""
    version = version_of(tag)
    if not (site / "index.html").exists():
        raise SystemExit(f"{site}: no built site; make docs builds it")
    pages.mkdir(parents=True, exist_ok=True)
    _replace(site, pages / version)
    found = [one.name for one in pages.iterdir() if one.is_dir() and _VERSION.fullmatch(one.name)]
    versions = sorted(found, key=numbers, reverse=True)
    if versions[0] == version:
        _replace(site, pages / "latest")
    links = "".join(f'<li><a href="{one}/">{one}</a></li>' for one in versions)
    (pages / "index.html").write_text(
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>Compute Ledger: documentation</title>'
        f'<h1>Documentation by version</h1><p><a href="latest/">The newest release</a></p><ul>{links}</ul></html>\n',
        "utf-8",
    )
    return versions


def _replace(site: Path, folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(site, folder)


def main(arguments: Sequence[str]) -> None:
    """Check a tag, or put a site in its place."""
    match arguments:
        case ["check", tag]:
            if found := problems(tag):
                raise SystemExit("\n".join(found))
        case ["put", tag, site, pages]:
            put(tag, Path(site), Path(pages))
        case _:
            raise SystemExit("check TAG, or put TAG SITE PAGES")


if __name__ == "__main__":
    main(sys.argv[1:])
