"""Ids of the shipped facts, told from file names so that nothing is parsed, and what a text may mean."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

from computeledger.errors import FactError, InputError, check_kind
from computeledger.facts.reading import read_file
from computeledger.files import user_files_allowed

#: Addresses of hubs, which are no paths.
_ADDRESS = r"\s*(https?://|(www\.)?(huggingface\.co|hf\.co|ollama\.com|modelscope\.(cn|ai))/)"
ALIAS_KINDS = ("spelling", "renamed", "mirror", "checkpoint")


@dataclass(frozen=True, slots=True)
class ModelAlias:
    """Another id of a bundled model."""

    id: str
    of: str
    kind: str
    verified: bool = True
    note: str = ""


def shipped_file(*parts: str) -> Traversable:
    """Locate a shipped file."""
    return resources.files("computeledger.facts").joinpath("data", *parts)


@functools.cache
def _stems(kind: str) -> tuple[str, ...]:
    """Names of the shipped files of one kind, which are their ids."""
    return tuple(sorted(file.name[:-5] for file in shipped_file(kind).iterdir() if file.name.endswith(".toml")))


def accelerator_ids() -> tuple[str, ...]:
    """Ids of the shipped accelerators."""
    return _stems("accelerators")


def system_ids() -> tuple[str, ...]:
    """Ids of the shipped systems."""
    return _stems("systems")


def node_ids() -> tuple[str, ...]:
    """Ids of the shipped nodes that accelerators stand in."""
    return _stems("nodes")


def compared_systems(comparison: str) -> tuple[str, ...]:
    """Systems that a comparison shows where none are named, of ``comparisons.toml``.

    Examples
    --------
    >>> "h200-nvl8" in compared_systems("scale_up_domains")
    True
    """
    document = read_file(shipped_file("comparisons.toml"), shipped=True)
    return tuple(document.table[comparison]["systems"])


def price_editions() -> tuple[str, ...]:
    """Ids of the shipped price editions, oldest first."""
    return _stems("prices")


def ownership_editions() -> tuple[str, ...]:
    """Ids of the shipped ownership editions, oldest first."""
    return _stems("ownership")


def tier_editions() -> tuple[str, ...]:
    """Ids of the shipped editions of memory and storage tiers, oldest first."""
    return _stems("tiers")


def model_ids() -> tuple[str, ...]:
    """Hugging Face ids of the shipped models."""
    return tuple(stem.replace("--", "/", 1) for stem in _stems("models"))


@functools.cache
def alias_records() -> Mapping[str, ModelAlias]:
    """Other ids of the bundled models, with what each is."""
    document = read_file(shipped_file("aliases.toml"), shipped=True)
    out = {}
    for name, table in document.table.items():
        try:
            out[name] = ModelAlias(name, **table)
        except TypeError as error:
            raise document.error(name, str(error)) from None
        if out[name].kind not in ALIAS_KINDS:
            raise FactError(f"aliases.toml: {name}: kind {out[name].kind!r} is none of {', '.join(ALIAS_KINDS)}")
    return out


def checkpoint_id(given: str) -> str | None:
    """The full id of the checkpoint that a text names, where another model's entry answers for it."""
    alias = _alias_index().get(normal_id(given))
    return None if alias is None or alias.kind == "spelling" else alias.id


@functools.cache
def _alias_index() -> Mapping[str, ModelAlias]:
    """Aliases by what a user may write: the full id, or its last part."""
    out: dict[str, ModelAlias] = {}
    for alias in alias_records().values():
        out |= {normal_id(alias.id.split("/")[-1]): alias, normal_id(alias.id): alias}
    bundled = {normal_id(name) for model_id in model_ids() for name in (model_id, model_id.split("/")[-1])}
    return {name: alias for name, alias in out.items() if name not in bundled}


def unread_alias(given: str) -> ModelAlias | None:
    """The alias that a text names, where the configuration of its own weights was not read."""
    alias = _alias_index().get(normal_id(given))
    return None if alias is None or alias.verified else alias


@functools.cache
def model_aliases() -> Mapping[str, tuple[str, ...]]:
    """Other ids of the bundled models: short forms, mirrors, and weights of the same shape and limits."""
    out: dict[str, tuple[str, ...]] = {}
    for alias in alias_records().values():
        out[alias.of] = (*out.get(alias.of, ()), alias.id)
    return out


@functools.cache
def model_index() -> Mapping[str, tuple[str, ...]]:
    """What a name of a model may mean, without reading a model."""
    full: dict[str, set[str]] = {}
    last: dict[str, set[str]] = {}
    for model_id in model_ids():
        for name in (model_id, *model_aliases().get(model_id, ())):
            full.setdefault(normal_id(name), set()).add(model_id)
            last.setdefault(normal_id(name.split("/")[-1]), set()).add(model_id)
    return {name: tuple(sorted(ids)) for name, ids in (last | full).items()}


def normal_id(given: str) -> str:
    """Bring an id to the form in which ids are compared."""
    return given.strip().lower().replace(" ", "-").replace("_", "-")


def user_path(given: str) -> Path | None:
    """Tell a path from an id."""
    check_kind(given, (str, os.PathLike), "an id, or the path of a file")
    if not user_files_allowed():
        return None
    if re.match(_ADDRESS, str(given)):
        return None
    path = Path(given).expanduser()
    if path.suffix in (".toml", ".json", ".gguf", ".safetensors"):
        return path
    if re.match(r"~|\.{0,2}[/\\]|.*/$", str(given)) and not path.exists():
        raise InputError(f"{given}: no such file or folder")
    separated = os.sep in given or "/" in given
    return path if separated and path.exists() else None
