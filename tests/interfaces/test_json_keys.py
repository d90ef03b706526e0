"""No key of a command's JSON document goes unseen: the commands answer with the keys that are kept beside this file.

Each document is held against the published schema too.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.interfaces.json_keys import KEPT, ROOT, commands, document_of, folded, keys_of

#: Answers that take seconds.
_LONG = {"compare", "compare-few", "validate", "simulate-serve-load", "invert-sheet", "plan-text"}
_QUESTIONS = [
    pytest.param(name, arguments, id=name, marks=[pytest.mark.stress] if name in _LONG else [])
    for name, arguments in commands().items()
]


@pytest.fixture(scope="module")
def kept() -> dict[str, Any]:
    """By name of the question."""
    return dict(json.loads(KEPT.read_text("utf-8")))


@pytest.fixture(scope="module")
def published() -> jsonschema.Draft202012Validator:
    """The schema of all documents."""
    schema = json.loads((ROOT / "docs" / "answers.schema.json").read_text("utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


@pytest.mark.parametrize(("name", "arguments"), _QUESTIONS)
def test_a_command_answers_with_its_keys(
    name: str, arguments: list[str], kept: dict[str, Any], published: jsonschema.Draft202012Validator, tmp_path: Path
) -> None:
    document = document_of(arguments, tmp_path)
    assert folded(keys_of(document)) == kept[name]
    assert [error.message for error in published.iter_errors(document)] == []


#: Fits, by the options that make them answer soonest.
_FITS = {"anchors": "--quick", "local": "", "neighbours": "--quick", "rl": "", "serving": "--quick", "training": ""}


@pytest.mark.parametrize(
    "what", [pytest.param(one, marks=[] if one == "anchors" else [pytest.mark.stress]) for one in _FITS]
)
def test_a_fit_answers_with_its_keys(
    what: str, kept: dict[str, Any], published: jsonschema.Draft202012Validator, shared_data: Path, tmp_path: Path
) -> None:
    document = document_of(["fit", what, *_FITS[what].split(), "--data", str(shared_data)], tmp_path)
    assert folded(keys_of(document)) == kept[f"fit-{what}"]
    assert [error.message for error in published.iter_errors(document)] == []


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ({"offers": []}, "'schema' is a required property"),
        ({"schema": "computeledger/cost/1"}, "'kinds' is a required property"),
        ({"schema": "computeledger/serv/1"}, "'computeledger/serv/1' is not one of"),
        ({"schema": "computeledger/serve/1", "tpot_s": "fast"}, "'fast' is not of type 'number', 'object', 'null'"),
        ({"schema": "computeledger/serve/1", "tpot_s": {"p50": 1.0}}, "'p05' is a required property"),
    ],
)
def test_the_published_schema_refuses_what_no_command_prints(
    document: dict[str, Any], said: str, published: jsonschema.Draft202012Validator
) -> None:
    assert any(said in error.message for error in published.iter_errors(document))
