"""Ids of the shipped facts, told from file names so that nothing is parsed, and what a text may mean."""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

from computeledger.facts.reading import read_file
from computeledger.files import user_files_allowed


def shipped_file(*parts: str) -> Traversable:
    """Locate a shipped file.

    Parameters
    ----------
    *parts : str
        Folder and file below the package's data.

    Returns
    -------
    Traversable
        The file.

    Examples
    --------
    >>> shipped_file("sources.toml").is_file()
    True
    """
    return resources.files("computeledger.facts").joinpath("data", *parts)


@functools.cache
def _stems(kind: str) -> tuple[str, ...]:
    """Names of the shipped files of one kind, which are their ids."""
    return tuple(sorted(file.name[:-5] for file in shipped_file(kind).iterdir() if file.name.endswith(".toml")))


def accelerator_ids() -> tuple[str, ...]:
    """Ids of the shipped accelerators.

    Returns
    -------
    tuple of str
        In alphabetical order.

    Examples
    --------
    >>> "h100-sxm5-80gb" in accelerator_ids()
    True
    """
    return _stems("accelerators")


def system_ids() -> tuple[str, ...]:
    """Ids of the shipped systems.

    Returns
    -------
    tuple of str
        In alphabetical order.

    Examples
    --------
    >>> "gb200-nvl72" in system_ids()
    True
    """
    return _stems("systems")


def price_editions() -> tuple[str, ...]:
    """Ids of the shipped price editions, oldest first.

    Returns
    -------
    tuple of str
        ``YYYY-MM``.

    Examples
    --------
    >>> "2026-11" in price_editions()
    True
    """
    return _stems("prices")


def ownership_editions() -> tuple[str, ...]:
    """Ids of the shipped ownership editions, oldest first.

    Returns
    -------
    tuple of str
        ``YYYY-MM``.

    Examples
    --------
    >>> "2026-11" in ownership_editions()
    True
    """
    return _stems("ownership")


def tier_editions() -> tuple[str, ...]:
    """Ids of the shipped editions of memory and storage tiers, oldest first.

    Returns
    -------
    tuple of str
        ``YYYY-MM``.

    Examples
    --------
    >>> "2026-11" in tier_editions()
    True
    """
    return _stems("tiers")


def model_ids() -> tuple[str, ...]:
    """Hugging Face ids of the shipped models.

    Returns
    -------
    tuple of str
        In alphabetical order, without aliases.

    Examples
    --------
    >>> "deepseek-ai/DeepSeek-V3" in model_ids()
    True
    """
    return tuple(stem.replace("--", "/", 1) for stem in _stems("models"))


@functools.cache
def model_aliases() -> Mapping[str, tuple[str, ...]]:
    """Other ids of the shipped models: publishers' variants of the same shape.

    Returns
    -------
    mapping of str to tuple of str
        Shipped id -> other ids.

    Examples
    --------
    >>> "meta-llama/Llama-3.1-70B" in model_aliases()["meta-llama/Meta-Llama-3.1-70B"]
    True
    """
    table = read_file(shipped_file("aliases.toml"), shipped=True).table
    return {model_id: tuple(names) for model_id, names in table.items()}


@functools.cache
def model_index() -> Mapping[str, tuple[str, ...]]:
    """What a name of a model may mean, without reading a model.

    Returns
    -------
    mapping of str to tuple of str
        Normal form of an id, an alias, or the last path component of either -> shipped ids.

    Examples
    --------
    >>> model_index()["deepseek-v3"]
    ('deepseek-ai/DeepSeek-V3',)
    """
    full: dict[str, set[str]] = {}
    last: dict[str, set[str]] = {}
    for model_id in model_ids():
        for name in (model_id, *model_aliases().get(model_id, ())):
            full.setdefault(normal_id(name), set()).add(model_id)
            last.setdefault(normal_id(name.split("/")[-1]), set()).add(model_id)
    return {name: tuple(sorted(ids)) for name, ids in (last | full).items()}


def normal_id(given: str) -> str:
    """Bring an id to the form in which ids are compared.

    Parameters
    ----------
    given : str
        What the user wrote.

    Returns
    -------
    str
        Lower case, with hyphens for spaces and underscores.

    Examples
    --------
    >>> normal_id("H100 SXM5_80GB")
    'h100-sxm5-80gb'
    """
    return given.strip().lower().replace(" ", "-").replace("_", "-")


def user_path(given: str) -> Path | None:
    """Tell a path from an id.

    Parameters
    ----------
    given : str
        A text taken where an id is expected.

    Returns
    -------
    Path or None
        The path: it ends in .toml or .json, or has a separator and exists. None for an id, and for every text where
        user's files are not allowed (:func:`computeledger.files.without_user_files`).

    Examples
    --------
    >>> user_path("my-chip.toml"), user_path("deepseek-ai/DeepSeek-V3")
    (PosixPath('my-chip.toml'), None)
    """
    if not user_files_allowed():
        return None
    path = Path(given).expanduser()
    if path.suffix in (".toml", ".json"):
        return path
    separated = os.sep in given or "/" in given
    return path if separated and path.exists() else None
