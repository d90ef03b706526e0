"""Every number of a recipe, and of a study, has two ends in its declaration; beyond them there is one line."""

from __future__ import annotations

import dataclasses
import re
import types
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from computeledger.errors import InputError
from rntp.interfaces.cli import main
from rntp.recipe import MOST_PROMPTS, JudgeSpec, LoraSpec, PretrainSpec, Recipe
from rntp.recipe_file import parse_recipe, record
from tests.gates import ROOT

WHOLE: dict[str, Any] = {
    "name": "a", "model": {"hidden_size": 8192}, "pretrain": {}, "corpus": {"source": ["a.txt"]}, "lora": {},
    "environments": [{"name": "e", "source": "json:loads", "judge": ""}],
}  # fmt: skip
#: What a slip of the keyboard may ask for.
HUGE = 10**12


def _parts(hint: Any) -> list[Any]:
    """The types that a field may have, without lists and alternatives around them."""
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is tuple:
        return [part for one in typing.get_args(hint) for part in _parts(one)]
    return [hint]


def _numbers(kind: type[Any], table: str = "") -> Iterator[tuple[str, dataclasses.Field[Any], bool]]:
    """Each number of a record and of those within it: its table, its field, and whether it is whole."""
    hints = typing.get_type_hints(kind)
    for field in dataclasses.fields(kind):
        for part in _parts(hints[field.name]):
            if dataclasses.is_dataclass(part):
                yield from _numbers(typing.cast("type[Any]", part), field.name)
            elif part in {int, float}:
                yield table, field, part is int


NUMBERS = [*_numbers(Recipe)]


def _given(table: str, name: str, value: float) -> dict[str, Any]:
    """A recipe with one number in its place."""
    if not table:
        return WHOLE | {name: value}
    if table == "judge":
        judged = {"name": "e", "tasks": "t.jsonl", "judge": {"model": "m", name: value}}
        return WHOLE | {"environments": [judged]}
    if table == "environments":
        return WHOLE | {table: [WHOLE[table][0] | {name: value}]}
    return WHOLE | {table: WHOLE.get(table, {}) | {name: value}}


def test_all_numbers_are_found_and_have_two_ends() -> None:
    found = {(table, field.name) for table, field, _ in NUMBERS}
    assert {("rl", "group_size"), ("model", "hidden_size"), ("judge", "batch"), ("environments", "turns")} < found
    assert {field.name for field in dataclasses.fields(LoraSpec)} >= {name for table, name in found if table == "lora"}
    assert len([name for table, name in found if table == "pretrain"]) == len(dataclasses.fields(PretrainSpec))
    assert ("judge", "timeout_s") in found and "timeout_s" in {one.name for one in dataclasses.fields(JudgeSpec)}
    for _, field, _ in NUMBERS:
        assert field.metadata["low"] <= 16 < HUGE > field.metadata["high"], field.name


@pytest.mark.parametrize(("table", "field", "is_whole"), NUMBERS, ids=lambda one: getattr(one, "name", str(one)))
def test_what_is_beyond_its_ends_is_one_line_that_names_both(
    table: str, field: dataclasses.Field[Any], is_whole: bool
) -> None:
    low, high = field.metadata["low"], field.metadata["high"]
    below = [low - 1] if low > -float("inf") else []
    for value in [HUGE, 2 * high + 1, *below, *([10**40] if is_whole else [1e300])]:
        with pytest.raises(InputError, match=f"{field.name} .* is needed") as refused:
            parse_recipe(_given(table, field.name, value if is_whole else float(value)))
        assert "\n" not in str(refused.value) and f"{int(high):,}" in str(refused.value)


@pytest.mark.parametrize(("table", "field", "is_whole"), NUMBERS, ids=lambda one: getattr(one, "name", str(one)))
def test_what_is_at_its_ends_is_read_or_contradicts_something_in_one_line(
    table: str, field: dataclasses.Field[Any], is_whole: bool
) -> None:
    for value in (field.metadata["low"], field.metadata["high"]):
        given = _given(table, field.name, value if is_whole else float(value))
        refused = _refusal(given)
        assert "\n" not in refused
        assert not re.search(rf"{field.name} \S+: (a|a whole) number (from|up)", refused), refused


def _refusal(given: dict[str, Any]) -> str:
    """What a recipe is refused with, empty where it is not."""
    try:
        parse_recipe(given)
    except InputError as error:
        return str(error)
    return ""


def test_studies_searches_and_transfers_have_ends_too() -> None:
    from rntp.arms import Arm
    from rntp.mixture_search import Search
    from rntp.study import Study, Variant
    from rntp.transfer import CommonStage, Transfer, TransferArm

    seen = set()
    for kind in (Study, Variant, Search, Transfer, TransferArm, CommonStage, Arm):
        hints = typing.get_type_hints(kind)
        for _, field, is_whole in (one for one in _numbers(kind) if not one[0]):
            seen.add(field.name)
            listed = typing.get_origin(hints[field.name]) is tuple
            for value in (HUGE, field.metadata["low"] - 1):
                one = value if is_whole else float(value)
                with pytest.raises(InputError, match=f"{field.name} .* is needed"):
                    record(kind, {field.name: [one] if listed else one}, "")
    assert {"places", "seeds", "samples", "device_s", "rungs_s", "grid", "supervised_s"} <= seen


def test_a_run_has_no_more_prompts_than_can_be_put_in_order() -> None:
    with pytest.raises(InputError, match=f"at most {MOST_PROMPTS:,} prompts are possible in a run"):
        parse_recipe(WHOLE | {"rl": {"steps": 10**7, "prompts_per_step": 64}})


def test_the_command_says_it_in_one_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    config = str(ROOT / "recipes" / "tiny_math" / "config.toml")
    for setting, allowed in [
        ("rl.group_size=1000000000000", "[rl] group_size 1000000000000: a whole number from 2 to 65,536 is needed"),
        ("model.hidden_size=100000000", "[model] hidden_size 100000000: a whole number from 4 to 65,536 is needed"),
    ]:
        with pytest.raises(SystemExit) as stopped:
            main(["train", config, "--set", f"output={tmp_path / 'run'}", "--set", setting])
        printed = capsys.readouterr()
        assert stopped.value.code == 2 and allowed in printed.err and printed.err.count("\n") == 1
        assert not printed.out and not (tmp_path / "run").exists()
