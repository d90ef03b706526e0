"""Deployment files of a user: YAML of bounded size, read without tags and with few references."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from computeledger.errors import InputError
from computeledger.files import MOST_TOML_BYTES, read_user_text
from computeledger.workloads.commands.deployments import given_by, read_deployment

#: References to other parts of a file: enough for those that people write, too few to grow without end.
_MOST_REFERENCES = 20


def with_deployment(path: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Options of a command, and what a deployment file says of those that were left out."""
    if options.get("from_command"):
        raise InputError("--from-file and --from-command both name a launch: give one of them")
    return given_by(read_deployment(_documents(path), path), options)


def _documents(path: str) -> list[Any]:
    try:
        import yaml
    except ImportError:
        raise InputError("--from-file needs PyYAML: pip install 'computeledger[deployments]'") from None
    text = read_user_text(Path(path), MOST_TOML_BYTES)
    try:
        references = sum(isinstance(one, yaml.AliasEvent) for one in yaml.parse(text, Loader=yaml.SafeLoader))
        documents = list(yaml.safe_load_all(text)) if references <= _MOST_REFERENCES else []
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = "" if mark is None else f":{mark.line + 1}"
        raise InputError(f"--from-file {path}{line}: not valid YAML: {getattr(error, 'problem', error)}") from None
    except (RecursionError, ValueError):
        raise InputError(f"--from-file {path}: nested too deeply, or a value that YAML cannot hold") from None
    if references > _MOST_REFERENCES:
        raise InputError(f"--from-file {path}: {references} references (*name); at most {_MOST_REFERENCES} are read")
    return documents
