"""What is measured: models by shipped configurations, the sizes of each measurement, and a tiny set for a dry run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from computeledger.facts.load import model_file
from computeledger.facts.reading import read_file

CONFIG = "config.json"
MODELS, CALIBRATION, RUNS, FACTS = "models", "calibration", "rntp", "facts"
#: Name of the measured machine's files.
MACHINE = "measured"


@dataclass(frozen=True, slots=True)
class Shape:
    """A model made from scratch: the id of its configuration, a short name, and sequences of its training step."""

    model: str
    name: str
    train_sequences: int
    config: Mapping[str, Any] | None = None

    def configuration(self) -> dict[str, Any]:
        """Read the fields of its ``config.json``: the shipped facts', or its own."""
        if self.config is not None:
            return dict(self.config)
        return dict(read_file(model_file(self.model), shipped=True).table["config_json"])

    def folder(self, output: Path) -> Path:
        """Find where its configuration is written."""
        return output / MODELS / self.name


@dataclass(frozen=True, slots=True)
class Point:
    """Sequences of a pass and the tokens before it."""

    batch: int
    tokens: int


@dataclass(frozen=True, slots=True)
class Rollouts:
    """Sizes of the steps of RL."""

    steps: int
    prompts: int
    group: int
    micro_batch: int
    context: int
    thought: int
    gold: int


@dataclass(frozen=True, slots=True)
class Settings:
    """Sizes of all measurements."""

    shapes: tuple[Shape, ...]
    rollouts: Rollouts
    decode: tuple[Point, ...]
    prefill: tuple[Point, ...]
    decode_tokens: int
    train_tokens: int
    train_steps: int
    calibrate_s: float


#: What a GPU is measured with. Lengths and batches are a choice (assumption): they fit 80 GB with 1.5B parameters in
#: float32 beside two AdamW states.
REAL = Settings(
    (Shape("Qwen/Qwen2.5-0.5B", "0.5B", 8), Shape("Qwen/Qwen2.5-1.5B", "1.5B", 4)),
    Rollouts(steps=6, prompts=8, group=8, micro_batch=8, context=512, thought=128, gold=32),
    decode=(Point(1, 512), Point(16, 512), Point(64, 512), Point(16, 4096)),
    prefill=(Point(1, 512), Point(1, 2048), Point(1, 8192)),
    decode_tokens=32, train_tokens=1024, train_steps=8, calibrate_s=45.0,
)  # fmt: skip
_TINY = {
    "model_type": "qwen2", "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 128, "max_position_embeddings": 256,
    "tie_word_embeddings": True,
}  # fmt: skip
#: The same measurements where nothing is worth measuring: a dry run on a CPU.
DRY = Settings(
    (Shape("tiny-2-layers", "tiny", 2, _TINY),
     Shape("tiny-3-layers", "small", 2, {**_TINY, "num_hidden_layers": 3, "tie_word_embeddings": False})),
    Rollouts(steps=2, prompts=2, group=2, micro_batch=2, context=12, thought=6, gold=4),
    decode=(Point(1, 16), Point(4, 16)), prefill=(Point(1, 16), Point(1, 64)),
    decode_tokens=3, train_tokens=16, train_steps=2, calibrate_s=0.5,
)  # fmt: skip


def sizes_of(settings: Settings) -> list[str]:
    """Say with which shapes and batches everything is measured.

    Parameters
    ----------
    settings : Settings
        The sizes.

    Returns
    -------
    list of str
        A line for the models, for RL, for serving, and for a training step.

    Examples
    --------
    >>> for line in sizes_of(REAL)[:2]:
    ...     print(line)
    models of random weights: 0.5B (Qwen/Qwen2.5-0.5B), 1.5B (Qwen/Qwen2.5-1.5B)
    RL: 6 steps of 8 x 8 thoughts of up to 128 tokens, context 512, continuation 32, 8 in a pass
    """
    rl = settings.rollouts

    def points(given: tuple[Point, ...]) -> str:
        return ", ".join(f"{one.batch} x {one.tokens:,}" for one in given)

    models = ", ".join(f"{one.name} ({one.model})" for one in settings.shapes)
    thoughts = f"{rl.prompts} x {rl.group} thoughts of up to {rl.thought} tokens"
    steps = f"{settings.decode_tokens} decode steps behind {points(settings.decode)} tokens"
    trained = ", ".join(f"{one.train_sequences} x {settings.train_tokens:,} ({one.name})" for one in settings.shapes)
    return [
        f"models of random weights: {models}",
        f"RL: {rl.steps} steps of {thoughts}, context {rl.context}, continuation {rl.gold}, {rl.micro_batch} in a pass",
        f"prefill of {points(settings.prefill)} tokens; {steps}",
        f"training steps of {trained} tokens, the median of {settings.train_steps}",
    ]


def write_configurations(settings: Settings, output: Path) -> None:
    """Write each model's ``config.json`` into a folder of its own, as both the engines and the planner read it.

    Parameters
    ----------
    settings : Settings
        With the models.
    output : Path
        Folder of the report.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as name:
    ...     write_configurations(REAL, Path(name))
    ...     written = json.loads((REAL.shapes[0].folder(Path(name)) / CONFIG).read_text())
    >>> written["hidden_size"], written["num_hidden_layers"]
    (896, 24)
    """
    for shape in settings.shapes:
        folder = shape.folder(output)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / CONFIG).write_text(json.dumps(shape.configuration(), indent=2), "utf-8")
