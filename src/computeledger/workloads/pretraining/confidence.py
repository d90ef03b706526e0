"""How sure a step time is: the class that a question falls in, and the measurements that are most like it."""

from __future__ import annotations

from dataclasses import dataclass

from computeledger.facts.schema import System
from computeledger.physics.calibration.training import load_training_tables, measured_family
from computeledger.physics.training.step import step_class
from computeledger.workloads.frameworks import USUAL_STACK
from computeledger.workloads.pretraining.estimate import PretrainingScenario

_LEFT_OUT = "each source left out of the fit in turn"
_SENTENCES = {
    "known": f"a dense model as vendors tune it for their own tables: the interval is that of such tables, {_LEFT_OUT}",
    "unseen": f"a dense model as people usually train it: the interval is that of other people's runs, {_LEFT_OUT}",
    "expert": f"a model with experts: the interval is that of runs with experts, {_LEFT_OUT}",
    "chip": "few or no sources measured chips of this kind: the interval is that of such chips, and of a family of "
    "chips left out of the fit",
}


@dataclass(frozen=True, slots=True)
class Confidence:
    """The class of an answer's interval."""

    name: str
    sentence: str


def confidence_of(scenario: PretrainingScenario, system: System) -> Confidence:
    """Name the class of a question.

    Examples
    --------
    >>> from computeledger.facts.load import load_model, load_system
    >>> from computeledger.physics.parallelism import Layout
    >>> from computeledger.physics.roofline import Precision
    >>> from computeledger.physics.training.batch import Batch
    >>> asked = PretrainingScenario(load_model("llama-3.1-8b"), Layout(dp=8), Precision(), Batch(8192, 128))
    >>> [confidence_of(asked, load_system(one)).name for one in ("h100-nvl8", "tpu-v6e-pod", "mi300x-8")]
    ['unseen', 'chip', 'chip']
    """
    name = step_class(scenario.model, scenario.batch, measured_family(system.accelerator))
    return Confidence(name, _SENTENCES[name])


@dataclass(frozen=True, slots=True)
class Alike:
    """How well measurements like a question were predicted, their source left out.

    Attributes
    ----------
    what : str
        What they share: kind of model, family of chips and framework, or fewer of them where there are few.
    n, sources : int
        Measurements and where they are from [-].
    step : float
        Median error of the step time [-].
    """

    what: str
    n: int
    sources: int
    step: float


def measured_alike(scenario: PretrainingScenario, system: System, framework: str = USUAL_STACK) -> Alike | None:
    """Find the measurements that are most like a question.

    Examples
    --------
    >>> from computeledger.facts.load import load_model, load_system
    >>> from computeledger.physics.parallelism import Layout
    >>> from computeledger.physics.roofline import Precision
    >>> from computeledger.physics.training.batch import Batch
    >>> asked = PretrainingScenario(load_model("llama-3.1-8b"), Layout(dp=8), Precision(), Batch(8192, 128))
    >>> measured_alike(asked, load_system("h100-nvl8"), "torchtitan").what
    'dense hopper torchtitan'
    >>> measured_alike(asked, load_system("16xtrainium1")).what
    'dense other'
    """
    kind = "moe" if scenario.model.is_moe else "dense"
    labels, slices = (kind, measured_family(system.accelerator), framework), load_training_tables()["slices"]
    for depth in (3, 2, 1):
        name = " ".join(labels[:depth])
        if name in slices:
            return Alike(name, **slices[name])
    return None
