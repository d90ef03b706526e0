"""What a box of models or systems says of each choice: sizes, memory, bandwidth and rent, from the facts."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from computeledger.economics.hosting.rent import hourly_price
from computeledger.facts.load import bundled_system, bundled_system_id, load_model, model_ids, model_name
from computeledger.facts.load import offered_systems as system_names
from computeledger.interfaces.views.display_names import system_words
from computeledger.interfaces.web.spec import Control
from computeledger.physics.parallelism import Layout
from computeledger.physics.serving.memory import weights_bytes_per_gpu
from computeledger.physics.transformer import n_params_active, n_params_total
from computeledger.physics.weights import precision_of
from computeledger.questions.wording import words

#: Formats of weights that are offered: those that people ask about, and those that launches name.
WEIGHT_FORMATS = ("bf16", "fp8", "fp4", "int8", "int4", "awq", "mxfp4", "mxfp8", "nf4")
MODELS, SYSTEMS = "models", "systems"


def list_of(control: Control) -> str:
    """The list that describes a box's choices; nothing where there is none.

    Examples
    --------
    >>> list_of(Control("model", "Model", "choice", choice_of=model_name)), list_of(Control("batch", "Batch"))
    ('models', '')
    """
    if control.choice_of is model_name:
        return MODELS
    return SYSTEMS if control.choice_of is bundled_system_id else ""


@functools.cache
def described_models() -> dict[str, dict[str, Any]]:
    """Models by id: parameters, and memory of the weights as stored and by format, in words.

    Examples
    --------
    >>> found = described_models()["meta-llama/Meta-Llama-3.1-70B"]
    >>> found["size"], found["weights"]["fp8"].replace(chr(160), " ")
    ('70.6B', '72.7 GB')
    """
    return {one: _described_model(one) for one in model_ids()}


def _described_model(name: str) -> dict[str, Any]:
    model = load_model(name)
    total, active = n_params_total(model), n_params_active(model)
    size = f"{words(total, '')}, {words(active, '')} active" if model.is_moe else words(total, "")
    weights = {
        one: words(float(weights_bytes_per_gpu(model, Layout(), precision_of(model, one or None))), "bytes")
        for one in ("", *WEIGHT_FORMATS)
    }
    return {"size": size, "weights": weights, "aliases": list(model.aliases)}


@functools.cache
def described_systems() -> dict[str, dict[str, Any]]:
    """Systems by id: chips, memory and bandwidth of one, and the rent of an hour, in words.

    Examples
    --------
    >>> described_systems()["h200-nvl8"]["chips"]
    '8 x H200'
    """
    return {one: _described_system(one) for one in system_names()}


def _described_system(name: str) -> dict[str, Any]:
    system = bundled_system(name)
    chip, price = system.accelerator, hourly_price(system.accelerator)
    guessed = price is not None and price.source == "assumption"
    rent = "" if price is None else f"{words(price.value, 'USD')}/GPU-hour{' (estimated)' if guessed else ''}"
    return {
        "chips": f"{system.n_gpus_scale_up.value:.0f} x {chip.short_name}",
        "memory": words(chip.hbm_bytes.value, "bytes"),
        "bandwidth": words(chip.hbm_bytes_per_s.value, "bytes_per_s"),
        "rent": rent,
        "aliases": [chip.name, system_words(name).lower()],
    }


#: Each list by its name.
LISTS: Mapping[str, Callable[[], dict[str, dict[str, Any]]]] = {MODELS: described_models, SYSTEMS: described_systems}
