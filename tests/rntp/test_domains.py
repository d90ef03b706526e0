"""Mathematics, puzzles, science and text against outside yardsticks."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from computeledger.errors import InputError
from rntp.verify import maths, puzzles, science
from rntp.verify.bubblewrap import PACKAGES
from rntp.verify.engine import Engine, verify
from rntp.verify.extract import program_of
from rntp.verify.limits import Limits
from rntp.verify.programs import packages_of
from rntp.verify.sandbox import WarmSandbox
from rntp.verify.task import read_task
from rntp.verify.text import register_scorer
from rntp.verify.verdict import STATUSES, Verdict

YARDSTICK = json.loads(Path(__file__).with_name("math_verify_cases.json").read_text("utf-8"))["cases"]
#: Cases whose own test allows fewer kinds of answer than we do: (reference, answer) -> what differs.
DIFFER = {
    ("1,22", "1.22"): "it reads plain expressions only; a boxed 1,22 is the pair of 1 and 22",
    ("$9$", "Answer $ \n 9 \n $"): "it reads LaTeX only; the plain number counts with us",
    ("$9$", "Answer \\( \n 9 \n \\)"): "the same",
}


def status(spec: dict, text: str, engine: Engine | None = None) -> str:
    document = {"id": "1", **spec}
    return (verify(document, text) if engine is None else engine.verify(read_task(document), text)).status


@pytest.fixture(scope="module")
def agrees() -> Iterator[Callable[[dict[str, Any]], bool]]:
    """Whether a comparison says what its case expects, in a process of its own as always: puzzles patch the parser."""
    with Engine() as engine:
        service = engine._service("math")

        def agree(case: dict[str, Any]) -> bool:
            arguments = [case["gold"], case["answer"], case.get("set_relations", False)]
            outcome = service.call("rntp.verify.maths:compare", arguments, Limits(wall_s=60.0, cpu_s=30.0))
            return (json.loads(outcome.stdout)["value"] == "correct") is bool(case["expected"])

        yield agree


def test_mathematics_against_math_verify_s_own_cases(agrees: Callable[[dict[str, Any]], bool]) -> None:
    assert [case for case in YARDSTICK[::5] if not agrees(case) and (case["gold"], case["answer"]) not in DIFFER] == []


@pytest.mark.stress
def test_mathematics_against_every_case(agrees: Callable[[dict[str, Any]], bool]) -> None:
    differ = {(case["gold"], case["answer"]) for case in YARDSTICK if not agrees(case)}
    assert differ == set(DIFFER)
    assert len(YARDSTICK) > 250


@given(st.integers(-(10**15), 10**15), st.integers(-(10**15), 10**15))
def test_the_short_way_for_whole_numbers_agrees_with_math_verify(answer: int, given_answer: int) -> None:
    maths.load()
    from math_verify import verify as full

    for guess in (answer, given_answer):
        text = f"So it is \\boxed{{{guess}}}."
        gold = maths.parse(f"$\\boxed{{{answer}}}$")
        assert maths.whole_answer(str(answer), text) == full(gold, maths.parse(text), timeout_seconds=None)


@pytest.mark.parametrize(
    ("answer", "text", "expected"),
    [
        (r"\frac{1}{2}", "the answer is 0.5", "correct"),
        ("[1,2)", r"\boxed{[1,2)}", "correct"),
        ("[1,2)", r"\boxed{(1,2]}", "wrong"),
        (r"\{1,2,3\}", r"$\{3,1,2\}$", "correct"),
        ("42", "I do not know", "format"),
        ("x^2+2x+1", r"\boxed{(x+1)^2}", "correct"),
        ("12", r"\boxed{12\text{ cm}}", "correct"),
    ],
)
def test_forms(answer: str, text: str, expected: str, warm: Engine) -> None:
    assert status({"domain": "math", "answer": answer}, text, warm) == expected


def test_a_tower_of_powers_costs_its_time_and_nothing_else(warm: Engine) -> None:
    tower = {"domain": "math", "answer": "1", "limits": {"wall_s": 0.5}}
    made = warm.verify(read_task({"id": "1", **tower}), "$9^{9^{9^9}}$")
    assert made.status == "timeout" and made.score == 0.0
    assert status({"domain": "math", "answer": "1/2"}, "$0.5$", warm) == "correct"


@pytest.mark.parametrize("sandboxed", [True, False])
def test_calls_work_with_and_without_a_sandbox(sandboxed: bool, sandbox_works: None) -> None:
    homes = dict.fromkeys(packages_of(name) for name in ("math_verify", "rntp", "computeledger"))
    folders = {f"{PACKAGES}/{place}": home for place, home in enumerate(homes)}
    with WarmSandbox(Limits(memory_bytes=2**31), ("rntp.verify.maths",), folders, sandboxed=sandboxed) as process:
        for text, expected in (("$0.5$", b'"correct"'), ("$0.4$", b'"wrong"')):
            answer = process.call("rntp.verify.maths:compare", [r"\frac{1}{2}", text, False], Limits())
            assert expected in answer.stdout
        slow = process.call("rntp.verify.maths:compare", ["1", "$9^{9^{9^9}}$", False], Limits(wall_s=0.3))
        assert slow.ended == "timeout"
        assert b'"correct"' in process.call("rntp.verify.maths:compare", ["2", "$2$", False], Limits()).stdout


PUZZLES = (
    "chain_sum",
    "countdown",
    "list_functions",
    "sudoku",
    "word_ladder",
    "n_queens",
    "leg_counting",
    "bitwise_arithmetic",
)


@pytest.mark.parametrize("name", PUZZLES)
def test_puzzles_accept_their_stored_answer(name: str, warm: Engine) -> None:
    stored = puzzles.generate(name, 7)["answer"] if name not in puzzles.HASH_SEEDED else oracle(warm, name, 7)
    assert status({"domain": "puzzle", "task": name, "seed": 7}, f"<answer>{stored}</answer>", warm) == "correct"
    assert status({"domain": "puzzle", "task": name, "seed": 7}, "<answer>nothing of it</answer>", warm) == "wrong"


def oracle(engine: Engine, name: str, seed: int) -> str:
    """The stored answer, generated where it will be judged."""
    outcome = engine._service("puzzle").call("rntp.verify.puzzles:generate", [name, seed], Limits(wall_s=60, cpu_s=60))
    answer: str = json.loads(outcome.stdout)["value"]["answer"]
    return answer


@pytest.mark.stress
def test_every_puzzle_accepts_its_stored_answer(sandbox_works: None) -> None:
    refused = {}
    with Engine("warm") as engine:
        for name in puzzles.names():
            for seed in (0, 1):
                stored = oracle(engine, name, seed)
                task = {
                    "id": "1",
                    "domain": "puzzle",
                    "task": name,
                    "seed": seed,
                    "limits": {"wall_s": 60, "cpu_s": 60},
                }
                if not stored or engine.verify(read_task(task), f"<answer>{stored}</answer>").status != "correct":
                    refused[name] = stored
    assert set(refused) == set(puzzles.NO_ORACLE), refused


def test_tasks_do_not_depend_on_the_process(sandbox_works: None, warm: Engine) -> None:
    with Engine("warm") as other:
        assert oracle(warm, "list_functions", 3) == oracle(other, "list_functions", 3)


@pytest.mark.parametrize(
    "payload", ["__import__('os').abort()", "[].__class__", "exec(chr(49))", "open(chr(47))", "'a'*9"]
)
def test_answers_are_not_evaluated(payload: str, warm: Engine) -> None:
    assert not maths.is_plain(payload)
    for name in ("countdown", "n_queens", "polynomial_multiplication"):
        made = warm.verify(
            read_task({"id": "1", "domain": "puzzle", "task": name, "seed": 1}), f"<answer>{payload}</answer>"
        )
        assert made.status in ("wrong", "format"), made
    task = {"id": "1", "domain": "puzzle", "task": "countdown", "seed": 1}
    assert "no plain expression" not in warm.verify(read_task(task), "<answer>1 + 2</answer>").detail


def test_an_unknown_puzzle_names_the_nearest(warm: Engine) -> None:
    with pytest.raises(InputError, match="unknown puzzle 'chain_summ': did you mean 'chain_sum'"):
        status({"domain": "puzzle", "task": "chain_summ"}, "1", warm)


@pytest.mark.parametrize(
    ("spec", "text", "expected"),
    [
        ({"answer": "9.81", "unit": "m/s^2"}, "g = 981 cm/s^2", "correct"),
        ({"answer": 9.81, "unit": "m/s^2", "tolerance": 0.001}, "The answer is 9.9 m/s^2", "wrong"),
        ({"answer": 300, "unit": "K"}, "\\boxed{26.85\\ ^\\circ C}", "wrong"),
        ({"answer": "6.022e23", "unit": "1/mol"}, "\\boxed{6.02 \\times 10^{23}\\ \\text{mol}^{-1}}", "correct"),
        ({"answer": 5, "unit": "J"}, "5 N m", "correct"),
        ({"answer": 5, "unit": "J"}, "5 kg", "wrong"),
        ({"answer": 0.25}, "25%", "correct"),
        ({"answer": 1500, "unit": "m"}, "the distance is 1.5 km.", "correct"),
        ({"answer": 3.0, "tolerance": 0.1}, "no idea", "format"),
        ({"answer": "B", "choices": ["red", "blue"]}, "The answer is (B).", "correct"),
        ({"answer": "B", "choices": ["red", "blue"]}, "\\boxed{blue}", "correct"),
        ({"answer": "B"}, "A, not B. Final answer: A", "wrong"),
        ({"answer": "mitochondrion", "kind": "exact"}, "Answer: The Mitochondrion.", "correct"),
        ({"answer": "H2SO4", "kind": "formula"}, "\\boxed{\\text{H}_2\\text{SO}_4}", "correct"),
        ({"answer": "CH3COOH", "kind": "formula"}, "C2H4O2", "correct"),
        ({"answer": "CuSO4·5H2O", "kind": "formula"}, "CuSO4·4H2O", "wrong"),
        ({"answer": "SO4^2-", "kind": "formula"}, "\\boxed{SO_4^{2-}}", "correct"),
        ({"answer": "SO4^2-", "kind": "formula"}, "SO4", "wrong"),
    ],
)
def test_science(spec: dict, text: str, expected: str) -> None:
    assert status({"domain": "science", **spec}, text) == expected


@given(
    st.floats(1e-6, 1e6),
    st.sampled_from([("km", "m", 1e3), ("h", "s", 3600.0), ("g", "kg", 1e-3), ("cal", "J", 4.184)]),
)
def test_a_quantity_is_the_same_in_any_unit(value: float, units: tuple[str, str, float]) -> None:
    small, large, factor = units
    spec = {"domain": "science", "answer": value * factor, "unit": large, "tolerance": 1e-6}
    assert status(spec, f"{value:.12g} {small}") == "correct"
    assert status(spec, f"{value * 1.1:.12g} {small}") == "wrong"


def test_hostile_units_cost_nothing() -> None:
    for text in ("5 m^99999999999", "1" * 400 + " m", "5 " + "m*" * 1000, "1e999999 m", "5 (((((", "5 m**9**9**9"):
        assert status({"domain": "science", "answer": 5, "unit": "m"}, text) in ("wrong", "format", "correct")
    assert science.factor_of("m", "m^2") is None


def test_scorers_of_text_plug_in() -> None:
    register_scorer("half", lambda task, text: 0.5)
    assert verify({"id": "1", "domain": "text", "answer": "x", "scorer": "half"}, "y").score == 0.5
    assert status({"domain": "text", "answer": " fox jumps over"}, "<think>?</think> fox jumps") == "correct"
    assert status({"domain": "text", "answer": " fox jumps"}, " fox jum") == "wrong"
    with pytest.raises(InputError, match="unknown scorer"):
        status({"domain": "text", "answer": "x", "scorer": "none"}, "y")


def test_a_verdict_is_one_of_the_statuses() -> None:
    assert len(STATUSES) == 8
    for score, name in ((1.0, "right"), (None, "wrong"), (0.5, "infrastructure"), (1.5, "correct")):
        with pytest.raises(InputError):
            Verdict(score, name, 0.0, "")
    assert Verdict(1.0, "correct", 0.25, "").seconds == 0.25


PIECES = st.sampled_from(
    ["```", "```python\n", "\n", "~~~~", "`" * 50, " ", "\t", "answer", " is ", ":", "<answer>", "</answer>",
     "\\boxed{",
     "}", "{", "1", "9" * 50, ".", ",", "e9", "^", "**", "(", ")", "m", "%", "H2", "+", "-", "°", "²", "\\text{",
     "$", "</think>", "\0", "é", "\ud800"]
)  # fmt: skip
HOSTILE = [
    {"domain": "science", "answer": 5, "unit": "m"}, {"domain": "science", "answer": "B"},
    {"domain": "science", "answer": "H2O", "kind": "formula"}, {"domain": "science", "answer": "x", "kind": "exact"},
    {"domain": "text", "answer": "x"}, {"domain": "math", "answer": "5", "unit": "m"},
]  # fmt: skip


@given(st.lists(PIECES, max_size=40), st.sampled_from(HOSTILE), st.integers(1, 2000))
def test_no_text_breaks_a_check_or_holds_it_up(pieces: list[str], spec: dict, times: int) -> None:
    text = "".join(pieces)
    for one in (text, (text * times)[:100_000]):
        assert status(spec, one) in STATUSES
        program_of(one, "python")
