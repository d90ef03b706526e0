"""What fits where: weights of known models over the memory that an engine fills of scale-up domains."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from computeledger.arrays import Num
from computeledger.facts.architecture import Model
from computeledger.facts.catalog import compared_systems
from computeledger.facts.load import load_model, load_system
from computeledger.facts.schema import PRECISION_BYTES
from computeledger.physics.transformer import n_params_total
from computeledger.workloads.engines.vllm import VLLM_BUFFERS

#: Models and scale-up domains that the map shows where none are named (assumption: the best known ones).
MODELS = ("llama-3.1-8b", "llama-3.1-70b", "qwen3-235b-a22b", "llama-3.1-405b", "deepseek-v3", "kimi-k2-instruct")
SYSTEMS = compared_systems("model_weights")


@dataclass(frozen=True, slots=True)
class Fit:
    """A model in a scale-up domain."""

    model: str
    system: str
    weights_fraction: Num


def weights_fractions(
    models: Sequence[str | Model] = MODELS, systems: Sequence[str] = SYSTEMS, precision: str = "fp8"
) -> list[Fit]:
    """Share of what an engine fills of each domain's memory that each model's weights take.

    Examples
    --------
    >>> one = weights_fractions(["deepseek-v3"], ["h100-nvl8", "gb200-nvl72"])
    >>> [round(fit.weights_fraction, 2) for fit in one]
    [1.07, 0.05]
    """
    out = []
    for given in models:
        model = load_model(given) if isinstance(given, str) else given
        label = given if isinstance(given, str) else given.id
        for name in systems:
            system = load_system(name)
            filled = system.n_gpus_scale_up.value * system.accelerator.usable_bytes * VLLM_BUFFERS.whole_fraction
            out.append(Fit(label, name, float(n_params_total(model)) * PRECISION_BYTES[precision] / filled))
    return out
