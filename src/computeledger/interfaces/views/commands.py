"""What a view says of the launch command that a question was read from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from computeledger.questions.wording import show


def command_facts(document: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Flags by the field that they became, what the engine takes by itself, and flags without effect on compute.

    Examples
    --------
    >>> options = [{"flag": "-tp 8", "field": "layout"}]
    >>> read = {"engine": "vllm", "options": options, "engine_defaults": {}, "ignored": []}
    >>> command_facts({"from_command": read})
    [('Read from the command', 'layout: -tp 8')]
    """
    read = document.get("from_command")
    if read is None:
        return []
    fields: dict[str, list[str]] = {}
    for one in read["options"]:
        fields.setdefault(one["field"].replace("_", " "), []).append(one["flag"])
    said = [f"{name}: {', '.join(flags)}" for name, flags in fields.items()]
    out = [("Read from the command", "; ".join(said))] if said else []
    own = [f"{name.replace('_', ' ')} {show(value, '')}" for name, value in read["engine_defaults"].items()]
    out += [(f"Not said there, so {read['engine']}'s own", ", ".join(own))] if own else []
    return out + ([("Without effect on compute", ", ".join(read["ignored"]))] if read["ignored"] else [])
