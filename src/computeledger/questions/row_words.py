"""A row of a table of measurements in words."""

from __future__ import annotations

import re
from collections.abc import Mapping

_REPOSITORY = re.compile(r"([\w.-]+/[\w.-]+):([^@]+)@.*")
_LABELS = (
    ("model_path", "model"), ("system", "hardware", "accelerator"), ("backend", "engine"), ("mode",),
    ("parallelism", "layout"),
)  # fmt: skip
#: Columns of degrees that name a layout in one word.
_DEGREES = {"tp_size": "tp", "pp_size": "pp", "attention_dp_size": "dp", "moe_ep_size": "ep"}
_LOADS = ("batch_size", "batch_or_concurrency", "concurrency", "static_batch")


def row_words(row: Mapping[str, str]) -> str:
    """A row in one line: model, machine, engine, layout, load; the first cells of a table of another kind."""
    parts = [next((row[name] for name in names if row.get(name)), "") for names in _LABELS]
    parts[0] = parts[0].rpartition("/")[2]
    degrees = [
        f"{short}{float(row[name]):.0f}"
        for name, short in _DEGREES.items()
        if row.get(name) not in (None, "", "0.0", "1.0")
    ]
    parts.append("-".join(degrees))
    given, written = (
        row.get(short) or row.get(name) for short, name in (("isl", "input_tokens"), ("osl", "output_tokens"))
    )
    if given or written:
        parts.append(f"{given or '?'}/{written or '?'}")
    load = next((row[name] for name in _LOADS if row.get(name)), "")
    parts.append(f"batch {load.removesuffix('.0')}" if load else "")
    parts.append(row["source"] if "engine" in row and row.get("source") else "")
    known = [part for part in parts if part]
    return " · ".join(known if len(known) > 2 else [cell for cell in row.values() if cell][:5])


def source_address(url: str) -> str:
    """Address of what a row cites: as it is, or of the file in a public repository that it names; empty if neither.

    Examples
    --------
    >>> source_address("vllm-project/recipes:a.md@c0ffee")
    'https://github.com/vllm-project/recipes/blob/HEAD/a.md'
    """
    if url.startswith(("https://", "http://")):
        return url
    found = _REPOSITORY.fullmatch(url)
    return f"https://github.com/{found[1]}/blob/HEAD/{found[2]}" if found else ""
