"""Headers of safetensors files: names, types and bytes of tensors, never their values."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from computeledger.errors import ModelConfigError
from computeledger.facts.checkpoints.gguf import Tensor
from computeledger.files import MOST_BYTES, open_user_file, parse_json, read_user_text

INDEX = "model.safetensors.index.json"
_LENGTH_BYTES = 8
_MOST_OFFSET = 2**53


def read_tensors(path: Path) -> list[Tensor]:
    """Tensors of one file: its header is JSON behind its length."""
    with open_user_file(path) as stream:
        head = stream.read(_LENGTH_BYTES)
        length = int.from_bytes(head, "little")
        if len(head) < _LENGTH_BYTES or not 1 < length <= MOST_BYTES:
            raise ModelConfigError(f"{path}: not a safetensors file: its header would have {length} bytes")
        raw = stream.read(length)
    if len(raw) < length:
        raise ModelConfigError(f"{path}: the header ends early: the file is cut off")
    table = parse_json(raw.decode("utf-8", "replace"), str(path))
    if not isinstance(table, dict):
        raise ModelConfigError(f"{path}: the header is no object")
    return [_tensor(path, name, entry) for name, entry in table.items() if name != "__metadata__"]


def _tensor(path: Path, name: str, entry: object) -> Tensor:
    table = entry if isinstance(entry, dict) else {}
    shape, offsets = (_whole(table.get(key)) for key in ("shape", "data_offsets"))
    if shape is None or offsets is None or len(offsets) != 2 or not 0 <= offsets[0] <= offsets[1] <= _MOST_OFFSET:
        raise ModelConfigError(f"{path}: {name[:80]!r}: no shape and data_offsets of whole numbers")
    is_vector = sum(n > 1 for n in shape) <= 1
    return Tensor(name, str(table.get("dtype"))[:20], offsets[1] - offsets[0], is_vector, shape=tuple(shape))


def _whole(value: object) -> list[int] | None:
    """A list of whole numbers, or None."""
    return value if isinstance(value, list) and all(type(one) is int for one in value) else None


_PART = re.compile(r"-\d{5}-of-(\d{5})\.safetensors$")


def parts_of(path: Path) -> list[Path]:
    """The file, or all parts of the checkpoint that it is a part of."""
    found = _PART.search(path.name)
    if found is None:
        return [path]
    stem, n = path.name[: found.start()], int(found[1])
    return [path.with_name(f"{stem}-{i + 1:05d}-of-{found[1]}.safetensors") for i in range(n)]


def files_of(folder: Path) -> Iterator[Path]:
    """Files of a folder's checkpoint: those that its index names, else the one that holds all."""
    index = folder / INDEX
    if index.is_file():
        table = parse_json(read_user_text(index), str(index))
        listed = table.get("weight_map") if isinstance(table, dict) else None
        if not isinstance(listed, dict) or not all(isinstance(one, str) for one in listed.values()):
            raise ModelConfigError(f"{index}: weight_map: no table of tensors and their files")
        yield from (folder / Path(one).name for one in sorted(set(listed.values())))
    elif (folder / "model.safetensors").is_file():
        yield folder / "model.safetensors"
