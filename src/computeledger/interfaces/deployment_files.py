"""Deployment files of a user: YAML of bounded size, read without tags and with few references."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from computeledger.errors import InputError
from computeledger.files import MOST_TOML_BYTES, read_user_text
from computeledger.workloads.commands.deployments import given_by, read_deployment
from computeledger.workloads.commands.text import MOST_OF_A_TEXT

#: References to other parts of a file: enough for those that people write, too few to grow without end.
_MOST_REFERENCES = 20
#: Values of a file with its references written out: far beyond any deployment.
_MOST_VALUES = 100_000
#: Values within one another: a deployment has about fifteen.
_MOST_NESTED = 100
#: What errors call a text that stands in no file.
PASTED = "the text"
#: Keys that deployment files have on the left, and no command.
_OF_A_FILE = re.compile(r"(?m)^(apiVersion|kind|services|modelArtifacts|decode|prefill)[ \t]*:")


def with_deployment(path: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Options of a command, and what a deployment file says of those that were left out."""
    if options.get("from_command") is not None:
        raise InputError("--from-file and --from-command both name a launch: give one of them")
    if not path.strip():
        raise InputError("--from-file: the name is empty; give a deployment file, such as deployment.yaml")
    chosen = ""
    if "#" in path and not Path(path).exists():
        path, _, chosen = path.rpartition("#")
    text = read_user_text(Path(path), MOST_TOML_BYTES)
    return given_by(read_deployment(_documents(text, path), path, chosen), options)


def given_by_text(text: str, system: str) -> dict[str, Any]:
    """Fields of a serving question that a launch command says, or the text of a deployment file.

    Examples
    --------
    >>> given_by_text("vllm serve Qwen/Qwen3-8B", "h100-nvl8")
    {'from_command': 'vllm serve Qwen/Qwen3-8B', 'system': 'h100-nvl8'}
    """
    if len(text) > MOST_OF_A_TEXT:
        raise InputError(f"{len(text):,} characters: at most {MOST_OF_A_TEXT:,} are read")
    if not _OF_A_FILE.search(text):
        return {"from_command": text, "system": system}
    return {"system": system} | given_by(read_deployment(_documents(text, PASTED), PASTED), {})


def _documents(text: str, path: str) -> list[Any]:
    try:
        import yaml
    except ImportError:
        raise InputError("--from-file needs PyYAML: pip install 'computeledger[deployments]'") from None
    try:
        _check_size(yaml.parse(text, Loader=yaml.SafeLoader), path)
        return list(yaml.safe_load_all(text))
    except InputError:
        raise
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = "" if mark is None else f":{mark.line + 1}"
        raise InputError(f"--from-file {path}{line}: not valid YAML: {getattr(error, 'problem', error)}") from None
    except (RecursionError, ValueError):
        raise InputError(f"--from-file {path}: nested too deeply, or a value that YAML cannot hold") from None


def _check_size(events: Iterable[Any], path: str) -> None:
    """Refuse a file that its references make long, or endless, before anything of it is built."""
    import yaml

    sizes: dict[str, int] = {}  # of what an anchor names, written out
    open_nodes: list[tuple[str | None, int]] = []
    values = references = 0
    for event in events:
        if isinstance(event, yaml.AliasEvent):
            references += 1
            if event.anchor not in sizes:
                raise InputError(f"--from-file {path}: *{event.anchor} stands within what it names, or before it")
            values += sizes[event.anchor]
        elif isinstance(event, yaml.NodeEvent):
            values += 1
            if isinstance(event, yaml.CollectionStartEvent):
                open_nodes.append((event.anchor, values))
                if len(open_nodes) > _MOST_NESTED:
                    raise InputError(f"--from-file {path}: values nested more than {_MOST_NESTED} deep")
            elif event.anchor:
                sizes[event.anchor] = 1
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = open_nodes.pop()
            if anchor:
                sizes[anchor] = values - before + 1
        if references > _MOST_REFERENCES:
            raise InputError(f"--from-file {path}: more than {_MOST_REFERENCES} references (*name)")
        if values > _MOST_VALUES:
            raise InputError(f"--from-file {path}: more than {_MOST_VALUES:,} values, references written out")
