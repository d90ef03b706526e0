"""Quantities as people write them: what is read, and what is refused in one line."""

from __future__ import annotations

import datetime

import pytest

from computeledger.arrays import MAX_SAMPLES, Range, sample
from computeledger.errors import ECHO_CHARACTERS, QuantityError, nearest, shown, unknown_id
from computeledger.units import parse_quantity

READ = {
    "thousands": ("1,000,000 tokens", "tokens", 1e6),
    "thousands and decimals": ("12,345.5 tokens", "tokens", 12345.5),
    "thousands and a multiplier": ("1,500T tokens", "tokens", 1.5e15),
    "underscores": ("1_000_000 tokens", "tokens", 1e6),
    "a bare rate": ("1000/s", "tokens_per_s", 1000.0),
    "a bare rate of requests": ("2.5K/min", "requests_per_s", 2500 / 60),
    "exponent": ("5e26 FLOP", "flop", 5e26),
    "no leading digit": (".5", "ratio", 0.5),
    "trailing point": ("5. tokens", "tokens", 5.0),
    "exa": ("1E tokens", "tokens", 1e18),
    "zero": ("0e9 tokens", "tokens", 0.0),
    "dollars": ("$1,000/h", "usd_per_hour", 1000.0),
    "largest": ("1e60 FLOP", "flop", 1e60),
    "range": ("1,000..2,000 tokens", "tokens", Range(1e3, 2e3)),
}


@pytest.mark.parametrize("case", READ)
def test_read(case: str) -> None:
    text, dimension, value = READ[case]
    assert parse_quantity(text, dimension) == value


REFUSED: dict[str, tuple[str | float, str, str]] = {
    "decimal comma": ("1,5T tokens", "tokens", "write 1.5"),
    "decimal comma of a range": ("1,5..3 months", "s", "write 1.5"),
    "three decimals": ("0,500 tokens", "tokens", "write 0.500"),
    "short group": ("1,00,000 tokens", "tokens", "comma separates thousands"),
    "long group": ("1000,000 tokens", "tokens", "comma separates thousands"),
    "trailing comma": ("1, tokens", "tokens", "not a number"),
    "double underscore": ("1__000 tokens", "tokens", "not a number"),
    "trailing underscore": ("1_ tokens", "tokens", "not a number"),
    "mixed separators": ("1,000_000 tokens", "tokens", "not a number"),
    "two points": ("1.5.2 tokens", "tokens", "not a number"),
    "large": ("1e308 tokens", "tokens", "that large"),
    "overflow": ("1e999 tokens", "tokens", "that large"),
    "large by its unit": ("1e50T tokens", "tokens", "that large"),
    "small": ("1e-61 tokens", "tokens", "that small"),
    "underflow": ("1e-999 tokens", "tokens", "that small"),
    "both": ("1e-300..1e300 tokens", "tokens", "that small"),
    "large number": (1e61, "count", "that large"),
    "huge integer": (10**5000, "count", "that large"),
    "dollars of tokens": ("$1T tokens", "tokens", "dollars"),
    "dollars of a count": ("$5", "count", "dollars"),
    "true": (True, "count", "true: expected"),
    "long": ("x" * 5000, "tokens", "xxx...'"),
    "long unit": ("5 " + "x" * 5000, "tokens", "xxx...'"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str) -> None:
    text, dimension, names = REFUSED[case]
    with pytest.raises(QuantityError) as error:
        parse_quantity(text, dimension)
    assert names in str(error.value)
    assert len(str(error.value)) < 600


def test_a_date_is_named_in_words() -> None:
    with pytest.raises(QuantityError, match=r"^the date 2026-11-01: expected a number"):
        parse_quantity(datetime.date(2026, 11, 1), "count")  # type: ignore[arg-type]


def test_what_was_given_is_shown_without_python() -> None:
    moment = datetime.datetime(2026, 11, 1, 7, 32, tzinfo=datetime.UTC)
    given = [False, None, 10**5000, {"a": 1}, [1], datetime.time(7, 32), moment, Range(1.0, 4.0), 2.5, "x"]
    assert [shown(one) for one in given] == [
        "false", "nothing", "a whole number of more than 30 digits", "a table", "[1]", "the time 07:32:00",
        "the date 2026-11-01 07:32:00+00:00", "1..4", "2.5", "'x'",
    ]  # fmt: skip


def test_long_ids_are_shortened() -> None:
    message = str(unknown_id("model", "x" * 5000, ["a"]))
    assert message == f"unknown model '{'x' * ECHO_CHARACTERS}...': allowed: a"
    assert nearest("h100-nvl9" + " " * 5000, ["h100-nvl8"]) == "allowed: h100-nvl8"


@pytest.mark.parametrize(
    ("n_samples", "seed", "names"),
    [(1, 0, "at least 2"), (MAX_SAMPLES + 1, 0, "at most 1,000,000"), (16, -1, "seed = -1")],
)
def test_sampling_has_limits(n_samples: int, seed: int, names: str) -> None:
    with pytest.raises(QuantityError, match=names):
        sample({"x": Range(1.0, 2.0)}, n_samples, seed)
