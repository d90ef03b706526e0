"""Load accelerators, systems and models by exact id, or from a user's own file.

Shipped records lie in one file per id, so that an id is found by a file's name and only the file needed is
parsed. A path is read afresh at each call; a shipped record is read once.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Callable, Iterable, Mapping
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from computeledger.errors import InputError, ModelConfigError, UnknownIdError, close_choices, nearest, shown, unknown_id
from computeledger.facts.architecture import Model
from computeledger.facts.catalog import (
    ModelAlias,
    accelerator_ids,
    model_aliases,
    model_ids,
    model_index,
    node_ids,
    normal_id,
    shipped_file,
    system_ids,
    unread_alias,
    user_path,
)
from computeledger.facts.checkpoints import (
    gguf_file_of,
    read_gguf_model,
    read_safetensors_model,
    with_checkpoint,
    with_file,
)
from computeledger.facts.counted import called, compact, counted, in_node, meant_count, read_counted
from computeledger.facts.hub import HubConfig, cached_config, fetch_config, is_online, online_allowed
from computeledger.facts.huggingface import parse_config
from computeledger.facts.naming import (
    Address,
    Variant,
    is_hub_id,
    is_size,
    named_alone,
    read_address,
    respelt,
    unknown_model,
    variant_of,
    without_mirror,
)
from computeledger.facts.packed import is_packed, model_from_packed
from computeledger.facts.reading import ASSUMPTION, Document, read_facts, read_file, read_provenance
from computeledger.facts.records import base_record, built, check_id, record_values
from computeledger.facts.schema import PEAK_PRECISIONS, PRECISION_BYTES, Accelerator, Fact, Node, System
from computeledger.facts.shape_rule import is_numbers, model_from_numbers
from computeledger.files import of_files, user_files_allowed, without_user_files
from computeledger.units import format_si

__all__ = [
    "accelerator_called",
    "accelerator_ids",
    "bundled_system",
    "bundled_system_id",
    "load_accelerator",
    "load_model",
    "load_node",
    "load_system",
    "model_ids",
    "model_name",
    "node_gpus",
    "offered_systems",
    "system_ids",
    "system_named_in",
]

_CONFIG = "config.json"
_MODEL_KEYS = ("id", "like", "config", "config_json", "precision", "published")
_PRECISION_KEYS = {"attention": "weight_precision", "dense": "dense_precision", "experts": "expert_precision"}


def load_accelerator(given: str) -> Accelerator:
    """Load an accelerator by exact id, or from a TOML file.

    Parameters
    ----------
    given : str
        Id of :func:`accelerator_ids`, or the path of a file. A user's file may name a shipped accelerator
        in ``like`` to take from it what it leaves out.

    Returns
    -------
    Accelerator
        One GPU package with its facts.

    Raises
    ------
    UnknownIdError
        The id names nothing, or a family of accelerators that differ.

    Examples
    --------
    >>> load_accelerator("h200-sxm5-141gb").hbm_bytes.given
    '141 GB'
    """
    if (path := user_path(given)) is not None:
        return read_accelerator(read_file(path))
    return _shipped_accelerator(_exact("accelerator", given, accelerator_ids(), system_ids))


def load_system(given: str) -> System:
    """Load a system by exact id, as a count of accelerators or of systems, or from a TOML file.

    Parameters
    ----------
    given : str
        Id of :func:`system_ids` or what people call it (``8 H100``); ``2xl40s``, ``2 L40S`` or ``4 x h100-nvl8``, where
        an accelerator stands in the node of its facts; behind it ``with 4x100Gb/s`` (the network ports of a node) or
        ``oversubscribed 7:1 above 3072``; or the path of a file. A user's file names a shipped accelerator or the path
        of one, and in ``like`` the system that supplies what it leaves out.

    Returns
    -------
    System
        A scale-up domain with its facts.

    Raises
    ------
    UnknownIdError
        The id names nothing, or an accelerator.

    Examples
    --------
    >>> load_system("h200-nvl8").accelerator.id
    'h200-sxm5-141gb'
    >>> load_system("2 x L40S").scale_up_bytes_per_s_per_gpu.value < load_system("8xh100").n_gpus_scale_up.value * 4e9
    True
    """
    if (path := user_path(given)) is not None:
        return read_system(read_file(path))
    return bundled_system(given)


@functools.cache
def _systems_called() -> Mapping[str, str]:
    """Offered systems by what people call them; of two that are called alike, the first."""
    return {called(bundled_system(one)).lower(): one for one in reversed(offered_systems())}


def system_named_in(text: str) -> str | None:
    """Find the shipped system whose chip a publication names.

    Examples
    --------
    >>> system_named_in("NVIDIA GB200"), system_named_in("tpu_v5e, 256 chips"), system_named_in("V100")
    ('gb200-nvl72', 'tpu-v5e-pod', None)
    """
    said = re.sub("[_-]", " ", text.lower())
    named = {_shipped_system(one).accelerator.short_name.lower(): one for one in system_ids()}
    return named.get(max((name for name in named if name in said), key=len, default=""))


@functools.lru_cache(1024)
def bundled_system(given: str) -> System:
    """A shipped system, one by what people call it, or one that a text counts; no file of that name is looked at."""
    words = " ".join(given.lower().split())
    meant = _systems_called().get(words, given) if " " in words else given
    if normal_id(meant) in system_ids():
        return _shipped_system(normal_id(meant))
    if (asked := read_counted(meant)) is None:
        raise _no_system(given)
    if asked.name in system_ids():
        system = _shipped_system(asked.name)
        return counted(asked, system, in_node(system.accelerator, system))
    if asked.n is None:
        raise _no_system(asked.name)
    chip = _counted_accelerator(given, asked.name)
    return counted(asked, chip, in_node(chip, _node(chip)))


def bundled_system_id(given: str) -> str:
    """Id of a system that is shipped or counted; no file of that name is looked at."""
    return bundled_system(given).id


def offered_systems() -> tuple[str, ...]:
    """Shipped systems, and each other accelerator in its full node: what a list of systems shows."""
    made = {_shipped_system(one).accelerator.id for one in system_ids()}
    rest = [load_accelerator(one) for one in accelerator_ids() if one not in made]
    return (*system_ids(), *(f"{_node(chip).n_gpus_scale_up.value:.0f}x{chip.id}" for chip in rest))


@functools.cache
def _accelerators_by_name() -> Mapping[str, Accelerator]:
    """Shipped accelerators by what people call them, without spaces and dashes; an id comes before a short name."""
    chips = [_shipped_accelerator(one) for one in accelerator_ids()]
    named = {compact(name): chip for chip in chips for name in (chip.name, *chip.aliases)}
    named |= {compact(name): chip for chip in chips for name in (f"{chip.vendor} {chip.short_name}", chip.short_name)}
    return named | {compact(chip.id): chip for chip in chips}


def accelerator_called(given: str) -> Accelerator | None:
    """The shipped accelerator of an id or of what people call it; None where it is neither."""
    if given in accelerator_ids():
        return _shipped_accelerator(given)
    return _accelerators_by_name().get(compact(given))


def _named_accelerator(given: str) -> Accelerator:
    """The shipped accelerator of an id or a short name."""
    if (chip := accelerator_called(given)) is not None:
        return chip
    if _family(given, accelerator_ids()):
        raise _no_exact("accelerator", given, given, accelerator_ids(), accelerator_ids())
    # a name in capitals reads as the same choice twice
    short = {one.short_name.lower() for one in _accelerators_by_name().values()}
    raise unknown_id("accelerator", given, {*accelerator_ids(), *system_ids(), *short})


def _node(chip: Accelerator) -> Node | System:
    """What an accelerator stands in."""
    return load_node(chip.node) if chip.node in node_ids() else _shipped_system(chip.node)


def node_gpus(chip: Accelerator) -> int:
    """Accelerators in a full node of their kind; 1 of one that is not shipped."""
    return int(_node(chip).n_gpus_scale_up.value) if chip.node else 1


@functools.cache
def load_node(stem: str) -> Node:
    """A shipped node by its id."""
    document = read_file(shipped_file("nodes", stem + ".toml"), shipped=True)
    return built(document, Node, None, record_values(document, Node, None, ("id", "name")))


def load_model(given: str, online: bool = False) -> Model:
    """Load a model by its name, from a file of the user's, or from numbers.

    Parameters
    ----------
    given : str
        An id or alias (``deepseek-ai/DeepSeek-V3``, ``deepseek-v3``; case does not matter), a mirror or a quantised
        checkpoint of a bundled model (``unsloth/Qwen3-8B-GGUF``), an address on huggingface.co, an id in the local
        Hugging Face cache, the path of a config.json, a TOML file or a model directory, a packed configuration
        (``config:NAME:DATA``), or numbers (``70B``, ``100B-A10B``, ``2T-A100B layers=61 kv=2KB/token``).
    online : bool
        Whether the configuration of a model that is not bundled may be fetched from huggingface.co.

    Returns
    -------
    Model
        Its shape, and the figures published about it.

    Raises
    ------
    UnknownIdError
        The id names nothing, or several models.
    ModelConfigError
        The configuration cannot be read.

    Examples
    --------
    >>> load_model("DeepSeek-V3").published["tokens_pretraining"].given
    '14.8 T tokens'
    >>> load_model("Qwen/Qwen3-14B-AWQ").weight_precision, load_model("100B-A10B").is_moe
    ('int4', True)
    """
    if is_packed(str(given)):
        return model_from_packed(given)
    if (path := user_path(given)) is not None:
        return _user_model(path)
    if is_numbers(given):
        return _numbers(given)
    if user_files_allowed() and normal_id(given) not in model_index() and (Path(given) / _CONFIG).is_file():
        return _user_model(Path(given))
    with online_allowed(online):
        return _named(read_address(given))


def model_name(given: str) -> str:
    """Id of the model that a name or numbers mean; no file of that name is looked at, and nothing is fetched.

    Examples
    --------
    >>> model_name("deepseek-v3"), model_name("100b-a10b")
    ('deepseek-ai/DeepSeek-V3', '100B-A10B')
    """
    with without_user_files():
        return load_model(given).id


_numbers = functools.lru_cache(maxsize=256)(model_from_numbers)


def _named(address: Address) -> Model:
    """A bundled model, the cache's, one that may be fetched, or the bundled one that the name is a variant of."""
    meant = respelt(address.id)
    if meant is not None:
        return _shipped_model(shipped_model_id(meant), unread_alias(meant))
    variant = variant_of(address.id)
    kept = _of_hub(address, variant) if is_hub_id(address.id) else None
    if kept is not None:
        return _hub_model(address.id, kept)
    if variant is not None:
        return variant.of_model(_shipped_model(variant.of))
    try:
        return _shipped_model(shipped_model_id(without_mirror(address.id)))
    except UnknownIdError as error:
        if not is_hub_id(address.id) or is_size(address.id) or not user_files_allowed():
            raise
        how = "no folder, not bundled, not in the local Hugging Face cache: --online fetches it, a config.json is read"
        raise UnknownIdError(f"{error} ({how}{named_alone(address.id)})") from None


def _of_hub(address: Address, variant: Variant | None) -> HubConfig | None:
    """The configuration of the local cache, or of the hub; a variant that the hub lacks has its name to go by."""
    kept = cached_config(address)
    if kept is not None or not is_online():
        return kept
    try:
        return fetch_config(address)
    except UnknownIdError:
        if variant is None:
            raise
        return None


def _hub_model(model_id: str, kept: HubConfig) -> Model:
    model = _configured_model(kept.path, model_id)
    return dataclasses.replace(model, notes=(*model.notes, kept.provenance), remarks=(kept.provenance,))


def shipped_model_id(given: str) -> str:
    """Full id of a shipped model; no file of that name is looked at."""
    name = normal_id(given)
    index = model_index()
    if name not in index:
        short = sorted(choice for choice in index if "/" not in choice)
        raise _no_exact("model", given, name, [*model_ids(), *sum(model_aliases().values(), ())], short)
    if len(index[name]) > 1:
        raise UnknownIdError(f"model {given!r} could mean {' or '.join(sorted(index[name]))}: give the full id")
    return index[name][0]


@functools.cache
def _shipped_accelerator(stem: str) -> Accelerator:
    return read_accelerator(read_file(shipped_file("accelerators", stem + ".toml"), shipped=True))


@functools.cache
def _shipped_system(stem: str) -> System:
    return read_system(read_file(shipped_file("systems", stem + ".toml"), shipped=True))


@functools.cache
def _shipped_model(model_id: str, unread: ModelAlias | None = None) -> Model:
    if unread is None:
        return read_model(read_file(model_file(model_id), shipped=True))
    model = _shipped_model(model_id)
    note = f"{unread.id}: its own configuration was not read (unverified); answered with that of {model_id}"
    return dataclasses.replace(model, notes=(*model.notes, note))


def model_file(model_id: str) -> Traversable:
    """Locate the file of a bundled model."""
    return shipped_file("models", model_id.replace("/", "--", 1) + ".toml")


def read_accelerator(document: Document) -> Accelerator:
    """Build an accelerator from a parsed file."""
    base = base_record(document, load_accelerator)
    values = record_values(document, Accelerator, base, ("id", "name", "vendor", "scope"))
    peaks: dict[str, Fact] = values.get("peak_flop_per_s", {})
    for precision in peaks:
        if precision not in PEAK_PRECISIONS:
            raise document.error(
                f"peak_flop_per_s.{precision}", f"unknown precision; {nearest(precision, PEAK_PRECISIONS)}"
            )
    if base is not None:
        values["peak_flop_per_s"] = {**base.peak_flop_per_s, **peaks}
        if "hbm_bytes" in values and base.usable_hbm_bytes is not None:
            values.setdefault("usable_hbm_bytes", _usable_share(base, values["hbm_bytes"]))
    elif "bf16" not in peaks:
        raise document.error("peak_flop_per_s", "bf16 is missing")
    return built(document, Accelerator, base, values)


def _usable_share(base: Accelerator, own: Fact) -> Fact:
    """What is usable of another capacity: the share that is usable of the accelerator's that a file is like."""
    share = base.usable_bytes / base.hbm_bytes.value
    note = f"{share:.4g} of the capacity, as of {base.id}"
    return Fact(own.value * share, own.unit, f"{own.value * share:.4g} B", ASSUMPTION, own.date, own.locator, note)


def read_system(document: Document) -> System:
    """Build a system from a parsed file."""
    base = base_record(document, load_system)
    values = record_values(document, System, base, ("id", "name"), {"accelerator": _read_system_accelerator})
    return built(document, System, base, values)


#: Characters of a file's name at most: the system refuses to look for a longer one.
_LONGEST_NAME = 255


def _read_system_accelerator(document: Document, path: str, value: Any) -> Accelerator:
    if not isinstance(value, str):
        raise document.error(path, f"{value!r} is not an accelerator's id or path")
    if document.shipped:
        return _shipped_accelerator(value)
    beside = Path(document.name).parent / value
    try:
        return load_accelerator(str(beside) if len(value) <= _LONGEST_NAME and beside.is_file() else value)
    except UnknownIdError as error:
        raise document.error(path, str(error), UnknownIdError) from None


def read_model(document: Document) -> Model:
    """Build a model from a parsed TOML file that holds its configuration."""
    table = document.table
    for key in table:
        if key not in _MODEL_KEYS:
            raise document.error(key, f"unknown field; {nearest(key, _MODEL_KEYS)}")
    if not isinstance(table.get("config_json"), dict):
        raise document.error("config_json", "the table of the configuration's fields is missing", ModelConfigError)
    model_id = table.get("id", Path(document.name).stem)
    check_id(document, model_id)
    origin = read_provenance(document, "config", table.get("config", {}))
    published = read_facts(document, "published", table.get("published", {}))
    config = table["config_json"]
    if "like" in table:
        base = _like(document, table["like"])
        config = _laid_over(base.table["config_json"], config)
        counts = {name: fact for name, fact in base.table.get("published", {}).items() if name.startswith("n_params")}
        published = read_facts(base, "published", counts) | published
    try:
        model = parse_config(config, model_id)
    except ModelConfigError as error:
        raise document.error("config_json", str(error), ModelConfigError) from None
    told = table.get("config", {}).get("note", "")
    note = f"configuration: {origin['source']}, {origin['locator']} ({origin['date']}). {told}".strip(". ")
    if "precision" in table:
        model = _with_precision(document, model, table["precision"])
    return dataclasses.replace(
        model, published=published, aliases=model_aliases().get(model_id, ()), notes=(*model.notes, note)
    )


def _like(document: Document, given: Any) -> Document:
    """The file of the bundled model that another is like."""
    if given not in model_ids():
        raise document.error("like", f"{given!r}: {nearest(str(given), model_ids())}", UnknownIdError)
    base = read_file(model_file(given), shipped=True)
    if "like" in base.table:
        raise document.error("like", f"{given} is itself like {base.table['like']}: name that one")
    return base


def _laid_over(base: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    """Fields of a configuration with others laid over them, table by table."""
    both = {key: (base[key], value) for key, value in own.items() if key in base}
    nested = {key: _laid_over(*pair) for key, pair in both.items() if all(isinstance(one, dict) for one in pair)}
    return base | own | nested


def _with_precision(document: Document, model: Model, table: Any) -> Model:
    """The model with the precision of its weights, which its configuration does not tell."""
    if not isinstance(table, dict):
        raise document.error("precision", f"expected a table of {', '.join(_PRECISION_KEYS)}, not {table!r}")
    for key in _PRECISION_KEYS:
        if table.get(key) not in PRECISION_BYTES:
            raise document.error(
                f"precision.{key}", f"{table.get(key)!r}: {nearest(str(table.get(key)), PRECISION_BYTES)}"
            )
    rest = {key: value for key, value in table.items() if key not in _PRECISION_KEYS}
    origin = read_provenance(document, "precision", rest)
    note = f"precision: {origin['source']}, {origin['locator']} ({origin['date']}). {table.get('note', '')}".strip()
    kept = tuple(text for text in model.notes if "no quantization_config" not in text)
    found = {field: table[key] for key, field in _PRECISION_KEYS.items()}
    return dataclasses.replace(model, notes=(*kept, note), **found)


def _user_model(path: Path) -> Model:
    if path.suffix == ".gguf":
        return read_gguf_model(path)
    if path.is_dir():
        if not (path / _CONFIG).is_file():
            return read_gguf_model(gguf_file_of(path))
        return with_checkpoint(_configured_model(path / _CONFIG), path)
    if path.suffix == ".safetensors":
        if not (path.parent / _CONFIG).is_file():
            return read_safetensors_model(path)
        return with_file(_configured_model(path.parent / _CONFIG), path)
    return read_model(read_file(path)) if path.suffix == ".toml" else _configured_model(path)


def _configured_model(path: Path, model_id: str = "") -> Model:
    document = read_file(path)
    try:
        return parse_config(document.table, model_id or str(path))
    except ModelConfigError as error:
        raise document.error("", str(error), ModelConfigError) from None


def _exact(kind: str, given: str, ids: tuple[str, ...], other_ids: Callable[[], tuple[str, ...]]) -> str:
    """The id a text is, in any case; else say what it could mean."""
    name = normal_id(given)
    if name in ids:
        return name
    if name in other_ids():
        raise UnknownIdError(_wrong_kind(kind, name))
    raise _no_exact(kind, given, name, ids, ids)


def _wrong_kind(kind: str, name: str) -> str:
    if kind == "accelerator":
        return f"{name!r} is a system; its accelerator is {_shipped_system(name).accelerator.id!r}"
    made_of_it = [system for system in system_ids() if _shipped_system(system).accelerator.id == name]
    full = _node(_shipped_accelerator(name)).n_gpus_scale_up.value
    counts = dict.fromkeys((*made_of_it, f"1x{name}", f"{full:.0f}x{name}"))
    return f"{name!r} is an accelerator, and a system is needed: {', '.join(counts)}, or another count"


#: What a system may be written as.
_SYSTEM_FORMS = "a system is N x CHIP (2xl40s)"


def _no_system(given: str) -> InputError:
    """Say what a system is, and what a text that names none comes nearest to."""
    name, chips = normal_id(given), _accelerators_by_name()
    forms = _SYSTEM_FORMS + of_files(", an id (h100-nvl8) or the path of a TOML file", " or an id (h100-nvl8)")
    if _family(name, system_ids()):
        error = _no_exact("system", given, name, system_ids(), system_ids())
        return UnknownIdError(f"{error}, or count GPUs: 1x{name}") if compact(name) in chips else error
    if compact(name) in chips:
        return UnknownIdError(_wrong_kind("system", chips[compact(name)].id))
    if not (told := " or ".join(repr(one) for one in _meant_systems(name))):
        how = "`computeledger facts search WORD` finds chips and systems"
        return UnknownIdError(f"unknown system {shown(given)}: {forms}; {how}")
    return UnknownIdError(f"unknown system {shown(given)}: did you mean {told}? A{forms[1:]}")


def _meant_systems(name: str) -> list[str]:
    """What a text that names no system may mean: a count in another form, the beginning of a name, a slip."""
    chips, meant = _accelerators_by_name(), meant_count(name)
    if meant is not None:
        n, counted_name = meant
        chip = chips.get(compact(counted_name))
        if chip is not None and name.endswith(f"-{n}") and "two tensor cores" in chip.scope:
            n = max(n // 2, 1)  # v4-8 counts tensor cores
        if chip is not None or counted_name in system_ids():
            return [f"{n}x{counted_name}"]
    begun = [short for short in chips if len(name) > 2 and short.startswith(compact(name))]
    found = close_choices(name, system_ids()) or begun[:3]
    found = found or close_choices(name, {*chips, *(chip.id for chip in chips.values())})
    return list(dict.fromkeys(one if one in system_ids() else f"1x{chips[compact(one)].id}" for one in found))


def _counted_accelerator(given: str, name: str) -> Accelerator:
    """The accelerator that a text counts."""
    try:
        return _named_accelerator(name)
    except UnknownIdError as error:
        told = str(error).partition(": allowed: ")
        how = "; `computeledger facts search WORD` finds chips" if told[1] else ""
        raise UnknownIdError(f"system {shown(given)}: {told[0]}{how}") from None


def _no_exact(kind: str, given: str, name: str, ids: Iterable[str], names: Iterable[str]) -> InputError:
    """Name the members of a family and how they differ, or the nearest ids."""
    members = _family(name, names)
    if not members:
        every = [*ids, *names]
        return unknown_model(given, every) if kind == "model" else unknown_id(kind, given, every)
    if kind == "model":
        return UnknownIdError(f"model {given!r} could mean {', '.join(members[:12])}: give the exact id")
    told = ", ".join(f"{member} ({_difference(kind, member)})" for member in members)
    why = ": they differ in memory, peak and power; give the exact id" if len(members) > 1 else "; give the exact id"
    is_half = kind == "accelerator" and any(_shipped_accelerator(one).packages_per_superchip > 1 for one in members)
    halves = "; one superchip holds two GPUs, and the id means one of them" if is_half else ""
    return UnknownIdError(f"{kind} {given!r} could mean {told}{why}{halves}")


def _family(name: str, names: Iterable[str]) -> list[str]:
    """Ids that begin with a text; ``b200`` means the GPU of a GB200 too."""
    names = list(names)
    whole = [choice for choice in names if f"{choice}-".startswith((f"{name}-", f"g{name}-"))]
    return whole or [choice for choice in names if len(name) > 2 and choice.startswith(name)]


def _difference(kind: str, member: str) -> str:
    if kind == "system":
        system = _shipped_system(member)
        return f"{system.n_gpus_scale_up.value:.0f} x {system.accelerator.id}"
    chip = _shipped_accelerator(member)
    peak = format_si(chip.peak_flop_per_s["bf16"].value, "FLOP/s")
    return f"{format_si(chip.hbm_bytes.value, 'B')}, {peak} bf16, {chip.chip_tdp_w.value:.0f} W"
