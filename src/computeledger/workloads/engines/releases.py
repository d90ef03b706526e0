"""When engines' releases came out: how old the software of a deployment is."""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Mapping
from importlib import resources

from computeledger.errors import InputError, shown

_MONTH = re.compile(r"20\d\d-(0[1-9]|1[0-2])")


@functools.cache
def releases() -> Mapping[str, Mapping[str, str]]:
    """Days of release by engine and version.

    Examples
    --------
    >>> releases()["vllm"]["0.12.0"]
    '2025-12-03'
    """
    text = resources.files("computeledger.workloads.engines").joinpath("releases.toml").read_text("utf-8")
    return {name: table for name, table in tomllib.loads(text).items() if name != "about"}


def _dated(engine: str) -> list[tuple[_Order, str, str]]:
    """Releases of an engine in their order: as numbers, by name, and the month."""
    listed = releases().get(engine, {})
    return sorted((order, one, day[:7]) for one, day in listed.items() if (order := _order(one)) is not None)


def release_at(engine: str, version: str) -> tuple[str | None, str] | None:
    """Release that an answer for a version or a month is of, where one is listed, and its month.

    It is the last listed one up to that; a development build belongs to the release that came after it.

    Examples
    --------
    >>> release_at("vllm", "0.12.0"), release_at("vllm", "2025-03"), release_at("tgi", "nightly")
    (('0.12.0', '2025-12'), ('0.8.2', '2025-03'), None)
    """
    dated = _dated(engine)
    if _MONTH.fullmatch(version[:7]) and version[7:8] in ("", "-"):
        final = [name for order, name, month in dated if month <= version[:7] and order[1] >= 0]
        return (final[-1] if final else None), version[:7]
    asked = _order(version)
    if asked is None or not dated:
        return None
    if ".dev" in version:
        return next(((name, month) for order, name, month in dated if order > asked), dated[-1][1:])
    return next(((name, month) for order, name, month in reversed(dated) if order <= asked), dated[0][1:])


def release_month(engine: str, version: str) -> str | None:
    """Month of a release, else of the last listed one before it; a month stands for itself.

    A development build belongs to the release that came after it.

    Examples
    --------
    >>> release_month("vllm", "0.12.1.dev5"), release_month("vllm", "2025-03"), release_month("vllm", "nightly")
    ('2025-12', '2025-03', None)
    """
    found = release_at(engine, version)
    return None if found is None else found[1]


def checked_month(engine: str, version: str) -> str:
    """Month of a release that a user named; one clear line where it is not known.

    Examples
    --------
    >>> checked_month("vllm", "new")
    Traceback (most recent call last):
    computeledger.errors.InputError: --backend-version 'new': expected a release of vllm or a month, 2023-07 to 2026-11
    """
    said = version.strip()
    found = None if re.match(r"\d{4}-", said) and not _MONTH.match(said) else release_month(engine, said)
    first, last = (choose(day[:7] for days in releases().values() for day in days.values()) for choose in (min, max))
    if found is None or not first <= found <= last:
        what = f"a release of {engine} or a month" if engine in releases() else "a month"
        raise InputError(f"--backend-version {shown(version)}: expected {what}, {first} to {last}")
    asked, dated = _order(said), _dated(engine)
    if asked is not None and not _MONTH.match(said) and _is_later(asked, dated[-1][0]):
        _, newest, month = dated[-1]
        raise InputError(
            f"--backend-version {shown(version)}: no such release of {engine} is known; the newest here is {newest} "
            f"({month}): name that one, an older one, or a month"
        )
    return found


def release_numbers(engine: str, said: str) -> tuple[int, ...] | None:
    """Numbers of a release; of the newest one of a month. None where a text names neither.

    Examples
    --------
    >>> release_numbers("vllm", "0.12.0"), release_numbers("vllm", "2025-12"), release_numbers("vllm", "nightly")
    ((0, 12, 0), (0, 13, 0), None)
    """
    if _MONTH.fullmatch(said.strip()[:7]):
        until = [one for one, day in releases().get(engine, {}).items() if day[:7] <= said.strip()[:7]]
        return max((order[0] for one in until if (order := _order(one)) is not None), default=None)
    found = _order(said.strip())
    return None if found is None else found[0]


def _is_later(asked: _Order, newest: _Order) -> bool:
    """Beyond the next minor version, which is what is being developed, or beyond the newest one for a release."""
    major, minor = (*newest[0], 0)[:2]
    return (*asked[0], 0)[:2] > ((major, minor + 1) if asked[1] < 0 else (major, minor))


#: A version as numbers: its release, whether it is final, and the number of a candidate or a later part.
_Order = tuple[tuple[int, ...], int, int]


def _order(version: str) -> _Order | None:
    """A version as numbers: its release, whether it is final, and the number of a candidate or a later part."""
    found = re.match(r"v?(\d+(?:\.\d+)*)(?:\.?(a|b|rc|dev|post)\.?(\d+))?", version)
    if found is None:
        return None
    numbers = tuple(int(one) for one in found[1].split("."))
    kind = {"dev": -2, "a": -2, "b": -2, "rc": -1, None: 0, "post": 1}[found[2]]
    return numbers, kind, int(found[3] or 0)
