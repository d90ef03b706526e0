"""A configuration in one word, ``config:NAME:DATA``: a model of one's own where no file can be named."""

from __future__ import annotations

import base64
import functools
import json
import re
import zlib
from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import Any

from computeledger.errors import ModelConfigError
from computeledger.facts.architecture import Model
from computeledger.facts.huggingface import parse_config
from computeledger.facts.reading import LARGEST_DIGITS, parse_document
from computeledger.files import parse_json
from computeledger.units import KIB

#: Most characters of such a word: an address holds several.
MOST_PACKED = 3000
#: Most bytes of the configuration that it unpacks to: those of the largest models take a few KiB.
_MOST_BYTES = int(64 * KIB)
_WORD = re.compile(r"config:([\w.-]{1,40}):([\w-]+)", re.ASCII)
_UNREADABLE = "config:...: not a packed configuration; paste the text of a config.json in the app's Model box"


def is_packed(text: str) -> bool:
    """Whether a text means a configuration in one word.

    Examples
    --------
    >>> is_packed("config:own:q1Y"), is_packed("qwen3-8b")
    (True, False)
    """
    return text.startswith("config:")


def packed_name(text: str) -> str:
    """What such a model is called: its name and the file that it was.

    Examples
    --------
    >>> packed_name("config:own-moe:q1Y")
    'own-moe/config.json'
    """
    return f"{text.split(':')[1]}/config.json"


def packed(text: str) -> str:
    """One word for a pasted ``config.json``: the fields that say something of the model's shape.

    Parameters
    ----------
    text : str
        The JSON text.

    Returns
    -------
    str
        ``config:NAME:DATA``, which :func:`~computeledger.facts.load.load_model` takes.

    Raises
    ------
    ModelConfigError
        The text is no configuration, or one that no reader knows.

    Examples
    --------
    >>> packed("{}")
    Traceback (most recent call last):
    computeledger.errors.ModelConfigError: not a config.json that can be read: model_type: missing; it says how to \
read every other field
    """
    try:
        config = parse_document("config.json", text, shipped=False).table
        model = parse_config(config, "")
    except ModelConfigError as error:
        said = re.sub(r"^config\.json(:\d+)?: ", "", str(error))
        raise ModelConfigError(f"not a config.json that can be read: {said}") from None
    kept = _needed(config, model)
    data = zlib.compress(json.dumps(kept, separators=(",", ":")).encode(), 9, -zlib.MAX_WBITS)
    word = f"config:{_name(config)}:{base64.urlsafe_b64encode(data).decode().rstrip('=')}"
    if len(word) > MOST_PACKED:
        raise ModelConfigError(
            f"a config.json whose shape takes {len(word):,} characters: {MOST_PACKED:,} fit into an address; name the "
            "file on the command line, --model FILE"
        )
    return word


@functools.lru_cache(maxsize=256)
def model_from_packed(text: str) -> Model:
    """The model of such a word.

    Examples
    --------
    >>> model_from_packed("config:own:q1Y")
    Traceback (most recent call last):
    computeledger.errors.ModelConfigError: config:...: not a packed configuration; paste the text of a config.json \
in the app's Model box
    """
    found = _WORD.fullmatch(text)
    if found is None or len(text) > MOST_PACKED:
        raise ModelConfigError(_UNREADABLE)
    try:
        data = base64.urlsafe_b64decode(found[2] + "=" * (-len(found[2]) % 4))
        unpacking = zlib.decompressobj(-zlib.MAX_WBITS)
        written = unpacking.decompress(data, _MOST_BYTES).decode()
    except (ValueError, zlib.error):
        raise ModelConfigError(_UNREADABLE) from None
    if not unpacking.eof:
        raise ModelConfigError(_UNREADABLE)
    config = parse_json(written, packed_name(text), most_digits=LARGEST_DIGITS)
    return parse_config(config, text)


def _name(config: Mapping[str, Any]) -> str:
    """What the configuration calls itself, or its kind."""
    said = config.get("_name_or_path")
    called = PurePath(said).name if isinstance(said, str) else ""
    return re.sub(r"[^\w.-]", "-", called or str(config["model_type"]), flags=re.ASCII)[:40]


def _needed(config: Mapping[str, Any], model: Model) -> dict[str, Any]:
    """The fields without which another model would be read, or none."""
    kept = dict(config)
    for table in _tables(kept):
        for key in list(table):
            value = table.pop(key)
            try:
                is_needed = parse_config(kept, "") != model
            except ModelConfigError:
                is_needed = True
            if is_needed:
                table[key] = value
    return kept


def _tables(config: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The configuration, then the tables in it that were kept, each a copy."""
    yield config
    for key, value in config.items():
        if isinstance(value, dict):
            config[key] = dict(value)
    yield from [value for value in config.values() if isinstance(value, dict)]
