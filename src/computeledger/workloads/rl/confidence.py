"""How far an RL question is from the runs that the calibration has seen."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping
from dataclasses import replace

from computeledger.arrays import Num, Range, Uncertain
from computeledger.facts.architecture import Model
from computeledger.facts.schema import Accelerator
from computeledger.facts.shape_rule import shape_rule
from computeledger.physics.calibration.rl import PHASES, RATIOS, RLFactors, load_rl_factors, load_rl_text, rl_factors
from computeledger.physics.calibration.training import chip_family
from computeledger.physics.calibration.weight_sync import RATIO as SYNC_RATIO
from computeledger.physics.calibration.weight_sync import load_sync_factors
from computeledger.workloads.frameworks import USUAL_STACK
from computeledger.workloads.rl_frameworks import load_rl_framework
from computeledger.workloads.serving.intervals import model_family

KNOWN_RUN, NEW_RUN = "known model and chip", "new model, chip or length"
#: A framework other than those whose steps the constants are fitted to.
OTHER_FRAMEWORK = "another framework than the fitted ones"
_RATIO_OF = {KNOWN_RUN: "rl_known_ratio", NEW_RUN: "rl_new_ratio", OTHER_FRAMEWORK: "rl_framework_ratio"}
#: Classes of a step's interval.
RL_CLASSES = tuple(_RATIO_OF)
_PHASE_RATIO = "rl_phase_ratio"
#: How far beyond the lengths of the fit a question may lie and still count as known (a choice).
FARTHEST_LENGTH = 2.0


def deployment_of(model: Model, chip: Accelerator) -> str:
    """Name a model's shape and a chip's family as the calibration lists them.

    Examples
    --------
    >>> from computeledger.facts.load import load_accelerator, load_model
    >>> deployment_of(load_model("llama-3.1-8b"), load_accelerator("h100-sxm5-80gb"))
    'gqa D4096 L32 V128256 hopper'
    """
    return f"{model_family(model)} {chip_family(chip)}"


@functools.cache
def _fitted() -> tuple[frozenset[str], float, float]:
    table = tomllib.loads(load_rl_text())["deployments"]
    shortest, longest = table["mean_tokens"]
    return frozenset(table["fitted"]), shortest / FARTHEST_LENGTH, longest * FARTHEST_LENGTH


def rl_class(model: Model, chip: Accelerator, mean_tokens: float = 0.0, framework: str = USUAL_STACK) -> str:
    """Say whether runs of this model's shape on this family of chips, with rollouts of such lengths, were fitted.

    A named framework whose steps were not fitted is a class of its own.

    Examples
    --------
    >>> from computeledger.facts.load import load_accelerator, load_model
    >>> rl_class(load_model("llama-3.1-70b"), load_accelerator("a100-sxm4-80gb"))
    'new model, chip or length'
    """
    if framework not in fitted_frameworks():
        return OTHER_FRAMEWORK
    known, shortest, longest = _fitted()
    near = not mean_tokens or shortest <= mean_tokens <= longest
    return KNOWN_RUN if near and deployment_of(model, chip) in known else NEW_RUN


def rl_ratio_name(name: str) -> str:
    """Constant that holds the interval of a class.

    Examples
    --------
    >>> rl_ratio_name(KNOWN_RUN)
    'rl_known_ratio'
    """
    return _RATIO_OF[name]


def fitted_frameworks() -> tuple[str, ...]:
    """Frameworks whose steps the constants are fitted to, and where nobody names one.

    Examples
    --------
    >>> fitted_frameworks()
    ('generic', 'nemo-rl')
    """
    return (USUAL_STACK, *tomllib.loads(load_rl_text())["deployments"]["frameworks"])


def framework_effect(framework: str) -> float:
    """Measured over predicted step of a framework, 1 where none was measured.

    Examples
    --------
    >>> framework_effect("generic")
    1.0
    """
    return float(tomllib.loads(load_rl_text()).get("frameworks", {}).get(framework, {}).get("effect", 1.0))


def rests_on(name: str, framework: str) -> str:
    """Say in a line what an interval of a class rests on: which framework's steps were measured.

    Examples
    --------
    >>> rests_on(NEW_RUN, "nemo-rl").partition(" of ")[2]
    'NeMo RL; none is of this model on this chip at such lengths'
    >>> rests_on(OTHER_FRAMEWORK, "slime").partition(":")[0]
    'no step of slime was measured'
    """
    table = tomllib.loads(load_rl_text())
    fitted = " and ".join(load_rl_framework(one).name for one in table["deployments"]["frameworks"])
    if framework in fitted_frameworks():
        known = "some are of a model of this shape on this family of chips"
        among = known if name == KNOWN_RUN else "none is of this model on this chip at such lengths"
        words = f"{table['deployments']['steps']} measured steps of {fitted}; {among}"
        return words if framework != USUAL_STACK else f"{words}, and your framework may be another"
    title, own = load_rl_framework(framework).name, table.get("frameworks", {}).get(framework, {}).get("steps", 0)
    width = "the width is that of other frameworks' steps"
    if own:
        return f"{own} measured steps of {title} correct the constants of {fitted}; {width}"
    return f"no step of {title} was measured: constants of {fitted}; {width}"


def framework_factors(factors: RLFactors, framework: str) -> RLFactors:
    """The constants with a framework's effect on its whole step, and its way to launch a decode step."""
    effect, layer_s = framework_effect(framework), load_rl_framework(framework).decode_layer_s
    return replace(factors, rl_step_ratio=factors.rl_step_ratio * effect, rl_decode_layer_s=layer_s)


def known_ratios() -> dict[str, Uncertain]:
    """Every interval of RL's answers by name: steps by class, each part of a step, and weight sync.

    Examples
    --------
    >>> len(known_ratios()) == len(RL_CLASSES) + len(PHASES) + 1
    True
    """
    factors = {**load_rl_factors(), **load_sync_factors()}
    found = {name: factors[name].value for name in (*RATIOS, SYNC_RATIO) if name != _PHASE_RATIO}
    return found | {f"{_PHASE_RATIO}.{phase}": factors[_PHASE_RATIO].value for phase in PHASES}


def rl_ratios(model: Model | None) -> dict[str, Uncertain]:
    """Real over modelled time of a step by class, wider where a rule guessed the model's shape: decoding leads a step.

    Examples
    --------
    >>> from computeledger.facts.load import load_model
    >>> guessed, real = (rl_ratios(load_model(name))["rl_new_ratio"] for name in ("70B", "llama-3.1-70b"))
    >>> guessed.high > real.high, guessed.low < real.low
    (True, True)
    """
    spread = 0.0 if model is None else shape_rule().spread_of("tpot", model)
    return {
        name: one.widened(spread) if spread and isinstance(one, Range) else one for name, one in known_ratios().items()
    }


def rl_factors_of(name: str, draws: Mapping[str, Num] | None = None, framework: str = USUAL_STACK) -> RLFactors:
    """Constants of RL, with the interval of the question's class as the ratio of the step.

    Examples
    --------
    >>> rl_factors_of(KNOWN_RUN, {"efficiency.rl_known_ratio": 1.1}).rl_step_ratio
    1.1
    """
    given = draws or {}
    ratio = given.get(f"efficiency.{rl_ratio_name(name)}", 1.0)
    parts = {f"rl_{name}_ratio": given.get(f"efficiency.{_PHASE_RATIO}.{name}", 1.0) for name in PHASES}
    sync = given.get(f"efficiency.{SYNC_RATIO}", 1.0)
    found = replace(rl_factors("fitted", given), rl_step_ratio=ratio, rl_weight_sync_ratio=sync, **parts)
    return framework_factors(found, framework)
