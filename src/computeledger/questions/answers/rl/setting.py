"""An RL question with samples of what is uncertain, and the run that it asks about."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from computeledger.arrays import Num, Uncertain
from computeledger.facts.load import load_model, load_system
from computeledger.facts.schema import System
from computeledger.fields import fields_of
from computeledger.frontier.text import text_facts
from computeledger.physics.calibration.efficiency import median_of
from computeledger.questions.answers.setup import draw_machine, price_of
from computeledger.workloads.questions.rl import RLQuestion
from computeledger.workloads.rl.confidence import rl_ratios
from computeledger.workloads.rl.reading import AskedRun, Numbers, read_run

#: Splits of the GPUs that an answer lists.
SHOWN = 5


@dataclass(frozen=True, slots=True)
class Setting:
    """The run of a question, with its price and power; numbers are samples, and medians, by field."""

    system: System
    price_ground: dict[str, Any]
    draws: dict[str, Num]
    medians: dict[str, Num]
    run: AskedRun


def read_setting(question: RLQuestion) -> Setting:
    """Make a question ready: facts loaded, inputs sampled, layouts and split found where they are not given."""
    question = question.settled
    system = load_system(question.system)
    price, ground = price_of(system, question.price)
    known: dict[str, Uncertain] = {**question.numbers, "price": price, "power": system.facility_w_per_chip.uncertain}
    if question.continuation_tokens is not None:
        known["stock"] = text_facts()["stock_tokens"].uncertain
    streams = {name: one.stream for name, one in fields_of(RLQuestion).items()}
    inputs = {streams.get(name, name): value for name, value in known.items()}
    if question.backend != "ideal":
        inputs |= {f"efficiency.{name}": value for name, value in rl_ratios(load_model(question.model)).items()}
    drawn, machine, typical = draw_machine(system, inputs, str(question.backend), question)
    draws = {name: drawn[streams.get(name, name)] for name in known}
    medians: dict[str, Num] = {name: median_of(value) for name, value in known.items()}
    factors = {name: value for name, value in drawn.items() if name.startswith("efficiency.")}
    run = read_run(question, Numbers(draws | factors, machine), Numbers(medians, typical))
    return Setting(system, ground, draws, medians, run)
