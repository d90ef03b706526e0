"""Configurations of the Hugging Face hub: out of the local cache, or fetched where the user allows it."""

from __future__ import annotations

import contextlib
import importlib
import os
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path

from computeledger.errors import InputError, UnknownIdError
from computeledger.facts.naming import Address
from computeledger.files import read_user_text, user_files_allowed

_online: ContextVar[bool] = ContextVar("online", default=False)
_NAME = "config.json"


@dataclass(frozen=True, slots=True)
class HubConfig:
    """A configuration's file, and whence it came."""

    path: Path
    provenance: str


@contextlib.contextmanager
def online_allowed(is_allowed: bool = True) -> Iterator[None]:
    """Let a model that is not bundled be fetched from its hub, inside a ``with`` block."""
    token = _online.set(is_allowed or _online.get())
    try:
        yield
    finally:
        _online.reset(token)


def is_online() -> bool:
    """Whether a configuration may be fetched; never for a stranger's question."""
    return _online.get() and user_files_allowed()


def cache_folder() -> Path:
    """Where ``huggingface_hub`` keeps what it fetched."""
    stated = os.environ.get("HF_HUB_CACHE") or os.environ.get("HUGGINGFACE_HUB_CACHE")
    if stated:
        return Path(stated).expanduser()
    home = os.environ.get("HF_HOME") or Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")) / "huggingface"
    return Path(home).expanduser() / "hub"


def cached_config(address: Address) -> HubConfig | None:
    """The configuration of an id in the local cache: of the revision asked for, else of the newest snapshot."""
    if not user_files_allowed():
        return None
    wanted = f"models--{address.id.replace('/', '--')}".lower()
    try:
        folder = next((one for one in sorted(cache_folder().iterdir()) if one.name.lower() == wanted), None)
        if folder is None:
            return None
        revision = _revision(folder, address.revision or "main")
        found = sorted(folder.glob(f"snapshots/*/{_NAME}"), key=lambda one: one.stat().st_mtime)
    except OSError:
        return None
    if address.revision is not None or any(one.parent.name == revision for one in found):
        found = [one for one in found if one.parent.name == revision]
    if not found:
        return None
    path = found[-1]
    return HubConfig(path, f"{address.id}: configuration of the local Hugging Face cache, revision {path.parent.name}")


def _revision(folder: Path, name: str) -> str:
    """The commit that a branch's name stands for; a commit stands for itself."""
    reference = folder / "refs" / name
    return read_user_text(reference).strip() if reference.is_file() else name


def fetch_config(address: Address) -> HubConfig:
    """Fetch a configuration with ``huggingface_hub``, which keeps it in its cache."""
    if address.site is not None and address.site.startswith("modelscope"):
        raise InputError(
            f"model {address.id!r}: only huggingface.co is fetched from; give the id there, or a config.json"
        )
    try:
        hub = importlib.import_module("huggingface_hub")  # an extra, loaded for this only
    except ImportError:
        raise InputError("--online needs huggingface_hub: pip install 'computeledger[online]'") from None
    try:
        path = Path(hub.hf_hub_download(address.id, _NAME, revision=address.revision))
    except (hub.errors.HfHubHTTPError, OSError, ValueError) as error:
        told = str(error).strip().splitlines()
        reason = next((line for line in told if line.strip()), type(error).__name__)
        raise UnknownIdError(f"model {address.id!r}: not fetched: {reason}") from None
    return HubConfig(path, f"{address.id}: configuration fetched from huggingface.co, revision {path.parent.name}")
