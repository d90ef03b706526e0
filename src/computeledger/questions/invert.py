"""The question of ``computeledger invert``: what a price sheet reveals of the model behind it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from computeledger.errors import InputError
from computeledger.fields import asked
from computeledger.files import of_files
from computeledger.workloads.questions.setup import Sampled

if TYPE_CHECKING:
    from computeledger.arrays import Uncertain

#: Fields of which a price list states one figure, and no range.
_EXACT = ("input", "output", "premium_spread", "fast_price", "fast_speed")


@dataclass(frozen=True, kw_only=True)
class InvertQuestion(Sampled):
    """What the prices of tokens say of the model that is sold, and what they do not."""

    samples: int = asked("whole", "Samples drawn.", 200_000, least=1_000, most=2_000_000)
    sheet: str | None = asked("text", "A price sheet as TOML.")
    model: str | None = asked(
        "text", "A price sheet of genai-prices, if that package is installed.", metavar="PROVIDER/NAME"
    )
    input: float | None = asked(
        "usd_per_mtok", "Price per million input tokens.", unit="$/Mtok", is_open=True, metavar="USD",
        label="Input", group="Prices",
        slider=(0.01, 100),
    )  # fmt: skip
    output: float | None = asked(
        "usd_per_mtok", "Price per million output tokens.", unit="$/Mtok", is_open=True, metavar="USD",
        label="Output", group="Prices",
        slider=(0.02, 500),
    )  # fmt: skip
    threshold: Uncertain | None = asked(
        "tokens", "Prompt length above which a request costs more.", unit="tokens", least=1.0, metavar="N",
        label="Dearer beyond", group="Prices", slider=(8192, 2e6), blank="none",
    )  # fmt: skip
    provider: str | None = asked("text", "Who sells it; read from --model when left out.", metavar="NAME")
    premium: Uncertain = asked(
        "ratio", "Price relative to the open market's, such as 3 or 1.5..6: a closed model may cost more.", 1.0,
        is_open=True, metavar="X", label="Premium", group="The seller", slider=(0.5, 20),
    )  # fmt: skip
    premium_spread: float = asked(
        "count", "Uncertainty of the premium where it is not a range: standard deviation of its logarithm.", 0.0,
        metavar="S",
        label="Its uncertainty", group="The seller", slider=(0, 1),
    )  # fmt: skip
    fast_price: float | None = asked(
        "ratio", "Price of a fast mode relative to the standard one; with --fast-speed.", metavar="X",
        label="Fast mode costs",
        group="Fast mode", slider=(1.01, 20), blank="none",
    )  # fmt: skip
    fast_speed: float | None = asked(
        "ratio", "Speed of the fast mode relative to the standard one.", metavar="X", label="Fast mode is faster",
        group="Fast mode",
        slider=(1.01, 10), blank="none",
    )  # fmt: skip

    def check(self) -> None:
        """Refuse parts that contradict one another."""
        for name in _EXACT:
            value = getattr(self, name)
            if value is not None and not isinstance(value, (int, float)):
                raise InputError(f"--{name.replace('_', '-')}: one exact number is expected")
        if self.model is None and self.sheet is None:
            for name, other in (("input", "output"), ("output", "input")):
                if getattr(self, name) is None and getattr(self, other) is not None:
                    raise InputError(f"--{name}: needed, the price per million {name} tokens")
        if sum(given is not None for given in (self.model, self.sheet, self.input)) != 1:
            file = of_files("one of --model provider/name, a SHEET.toml", "--model provider/name")
            raise InputError(f"give {file}, or --input and --output")
