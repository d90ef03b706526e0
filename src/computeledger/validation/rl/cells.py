"""Cells of measured RL tables, read; what they leave out is said, never guessed."""

from __future__ import annotations

import re
from collections.abc import Mapping

from computeledger.errors import InputError
from computeledger.facts.architecture import Model
from computeledger.facts.load import load_model, load_system, system_named_in
from computeledger.facts.schema import System
from computeledger.physics.calibration.weight_sync import sync_mechanisms
from computeledger.physics.roofline import Precision, parse_precision
from computeledger.units import DAY_S, HOUR_S, MINUTE_S
from computeledger.validation.compare import MOST_MEASURED

#: Spellings of models, letters and digits only.
MODELS = {
    "deepseekv3": "deepseek-v3",
    "kimik2": "kimi-k2",
    "llama318b": "llama-3.1-8b",
    "llama318binstruct": "llama-3.1-8b",
    "llama3170b": "llama-3.1-70b",
    "llama31405b": "llama-3.1-405b",
    "qwen330b3a": "qwen3-30b-a3b",
    "qwen330ba3b": "qwen3-30b-a3b",
    "qwen330ba3bbase": "qwen3-30b-a3b",
    "qwen3235b": "qwen3-235b-a22b",
    "qwen3235ba22b": "qwen3-235b-a22b",
    "qwen332b": "qwen3-32b",
    "qwen314b": "qwen3-14b",
    "qwen38b": "qwen3-8b",
    "qwen317b": "qwen3-1.7b",
    "qwen306b": "qwen3-0.6b",
    "qwen257b": "qwen2.5-7b",
    "qwen25math7b": "qwen2.5-math-7b",
    "qwen257binstructretoolsft": "qwen2.5-7b-instruct",
    "qwen2532b": "qwen2.5-32b",
    "qwen2572b": "qwen2.5-72b",
    "opt67b": "facebook/opt-6.7b",
}
NUMBER = r"(?<![\d.])(\d[\d,]*\.?\d*)"
UNIT_S = {"s": 1.0, "ms": 1e-3, "min": MINUTE_S, "hours": HOUR_S, "days": DAY_S}
_GPUS_PER_NODE = 8


class SkippedRLRunError(InputError):
    """A row that a prediction cannot be made for, with the reason."""


def text_of(row: Mapping[str, str], name: str) -> str:
    """A cell, nothing where the table lacks it."""
    return (row.get(name) or "").strip()


def number_of(text: str) -> float:
    """A number greater than 0."""
    try:
        value = float(text.replace(",", ""))
    except ValueError:
        raise SkippedRLRunError("a number that cannot be read") from None
    if not value > 0:
        raise SkippedRLRunError("a number that is not greater than 0")
    if value > MOST_MEASURED:
        raise SkippedRLRunError(f"a number beyond {MOST_MEASURED:g}")
    return value


def whole_of(text: str, reason: str) -> int:
    """A whole number, or the reason why there is none."""
    if not re.fullmatch(r"\d[\d,]*(\.0)?", text):
        raise SkippedRLRunError(reason)
    return int(number_of(text))


def seconds_of(row: Mapping[str, str]) -> float:
    """The measured time of a row [s]."""
    if row["unit"] not in UNIT_S:
        raise SkippedRLRunError(f"unit {row['unit']!r} of a time not known")
    return number_of(row["value"]) * UNIT_S[row["unit"]]


def read_model(row: Mapping[str, str]) -> Model:
    """The policy: by its name, or by its size where the row says that its shape is its own."""
    text = text_of(row, "model").partition(" actor")[0]
    plain = re.sub(r"[^a-z0-9]", "", text.lower())
    if plain in MODELS:
        return load_model(MODELS[plain])
    size = re.search(r"\d+B(?:-A\d+B)?", text)
    own = "own shape" in text or text.lower().startswith("opt-")
    for name in (text, size[0] if size and own else text):
        try:
            return load_model(name)
        except InputError:
            continue
    raise SkippedRLRunError("model not known")


def read_system(row: Mapping[str, str]) -> System:
    """The system whose chip a row names."""
    text = text_of(row, "hardware")
    system = system_named_in(text)
    if system is None:
        raise SkippedRLRunError("hardware not known" if text else "hardware not stated")
    return load_system(system)


def read_precision(row: Mapping[str, str], model: Model) -> Precision:
    """Precision of rollouts and update; bf16 where nothing is said."""
    found = re.search(r"precision (?:train\+gen )?(BF16|FP8|FP4)", text_of(row, "notes"), re.IGNORECASE)
    return parse_precision(found[1].lower() if found else "bf16", model.is_moe)


#: How tables write who generates and who trains, as patterns of both counts.
_SIDES = (
    r"gen (?P<gen>\d+) / train (?P<train>\d+)",
    r"rollout (?P<gen>\d+) ?: ?train (?P<train>\d+)",
    r"(?P<train>\d+) (?:policy|learner)[^:]*: ?(?P<gen>\d+) inference",
    r"^(?P<gen>\d+):(?P<train>\d+)$",
)


def read_sides(row: Mapping[str, str], n_gpus: int) -> tuple[float, float] | None:
    """GPUs that generate and that train, where they are apart and stated.

    Examples
    --------
    >>> read_sides({"gpu_split": "32 learner : 8 inference"}, 40)
    (8.0, 32.0)
    >>> read_sides({"gpu_split": "train 8 + rollout 2 nodes"}, 80)
    (16.0, 64.0)
    """
    text = text_of(row, "gpu_split")
    nodes = re.search(r"train (\d+) \+ rollout (\d+) nodes", text)
    if nodes is not None:
        train, gen = (_GPUS_PER_NODE * float(one) for one in nodes.groups())
        return (gen, train) if gen + train == n_gpus else None
    for pattern in _SIDES:
        found = re.search(pattern, text)
        if found is not None:
            return float(found["gen"]), float(found["train"])
    return None


def read_degrees(text: str, name: str) -> list[float]:
    """Degrees of a layout as stated; none where they are not."""
    words = re.search(rf"{name} ((?:[A-Z]+\d+ ?)+)", text)
    if words is not None:
        degrees = dict(re.findall(r"([A-Z]+)(\d+)", words[1]))
        return [float(degrees.get(one, 1)) for one in ("TP", "CP", "EP", "PP", "VPP")]
    engines = re.search(r"inference \(\d+ x TP(\d+)\)", text)
    if name == "gen" and engines is not None:
        return [float(engines[1]), 1.0]
    found = re.search(rf"{name} \[[A-Z,]+\]=\[([^\]]+)\]", text)
    if found is None:
        return []
    return [number_of(part) if part.strip() not in {"n/a", ""} else 1.0 for part in found[1].split(",")]


def read_mechanism(said: str) -> str | None:
    """Id of the mechanism of weight sync that a text names first; None where it names none."""
    low = said.lower()
    named = [(low.index(word), one.id) for one in sync_mechanisms().values() for word in one.words if word in low]
    return min(named)[1] if named else None
