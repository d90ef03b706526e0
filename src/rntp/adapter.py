"""LoRA: an adapter of low rank that is trained beside frozen weights, by peft, and the weights with it merged."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from computeledger.errors import InputError, nearest, shown
from rntp.recipe import LoraSpec

#: Folder of the adapter alone, within that of the weights with it merged.
ADAPTER = "adapter"
#: What peft calls an adapter that has been given no name, and puts before the names of the model's weights.
_NAME, _PREFIX = "default", "base_model.model."


def check_lora(spec: LoraSpec | None, model: Any = None) -> None:
    """Refuse an adapter where peft is not installed, or of layers that the model does not have.

    Examples
    --------
    >>> from transformers import GPT2Config, GPT2LMHeadModel
    >>> tiny = GPT2LMHeadModel(GPT2Config(vocab_size=9, n_positions=16, n_embd=8, n_layer=1, n_head=2))
    >>> check_lora(LoraSpec(target_modules=("c_atn",)), tiny)
    Traceback (most recent call last):
    computeledger.errors.InputError: [lora] target_modules 'c_atn': did you mean 'c_attn'?
    """
    if spec is None:
        return
    if importlib.util.find_spec("peft") is None:
        raise InputError("[lora]: peft is not installed: pip install 'computeledger[lora]'")
    if os.environ.get("ACCELERATE_USE_FSDP", "") == "true":
        raise InputError(
            "[lora]: FSDP releases a frozen head that TRL still reads in the backward pass; start the processes "
            "without FSDP: an adapter's optimizer needs no sharding"
        )
    known = _linear_layers(model) if model is not None else []
    for name in spec.target_modules if known else ():
        if name not in known:
            raise InputError(f"[lora] target_modules {shown(name)}: {nearest(name, known)}")


def _linear_layers(model: Any) -> list[str]:
    """Last names of the layers that an adapter can be put beside: all that multiply, but the head."""
    head = model.get_output_embeddings()
    named = (
        name.rpartition(".")[2]
        for name, one in model.named_modules()
        if one is not head and type(one).__name__ in ("Linear", "Conv1D")
    )
    return list(dict.fromkeys(named))


def lora_config(spec: LoraSpec | None) -> Any:
    """Say an adapter in peft's terms.

    Examples
    --------
    >>> lora_config(LoraSpec(rank=4)).target_modules
    'all-linear'
    """
    if spec is None:
        return None
    from peft import LoraConfig

    return LoraConfig(
        r=spec.rank, lora_alpha=spec.alpha, lora_dropout=spec.dropout, task_type="CAUSAL_LM",
        target_modules=list(spec.target_modules) or "all-linear",
    )  # fmt: skip


def set_dropout(model: Any, probability: float) -> None:
    """Let the adapter's dropout have another probability.

    Examples
    --------
    >>> set_dropout(torch.nn.Linear(2, 2), 0.5)
    """
    for name, one in model.named_modules():
        if ".lora_dropout." in name and isinstance(one, torch.nn.Dropout):
            one.p = probability


def merged(model: Any, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Add what an adapter adds to the weights; the model is left as it is.

    Parameters
    ----------
    model : PeftModel
        Its shape and scales are used.
    state : mapping of str to Tensor
        Its weights, whole.

    Returns
    -------
    dict of str to Tensor
        Under the names of the model without an adapter.

    Examples
    --------
    >>> from peft import get_peft_model
    >>> from transformers import LlamaConfig, LlamaForCausalLM
    >>> shape = {"vocab_size": 9, "hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1}
    >>> tiny = LlamaForCausalLM(LlamaConfig(**shape, num_attention_heads=2))
    >>> names = set(tiny.state_dict())
    >>> adapted = get_peft_model(tiny, lora_config(LoraSpec(rank=2)))
    >>> set(merged(adapted, adapted.state_dict())) == names
    True
    """
    named = {name.removeprefix(_PREFIX): value for name, value in state.items()}
    out = {name.replace(".base_layer.", "."): value for name, value in named.items() if ".lora_" not in name}
    for name, layer in model.get_base_model().named_modules():
        if hasattr(layer, "lora_A"):
            first, second = (named[f"{name}.lora_{part}.{_NAME}.weight"].float() for part in "AB")
            added = second @ first * layer.scaling[_NAME]
            weight = out[f"{name}.weight"]
            out[f"{name}.weight"] = weight + (added.T if layer.fan_in_fan_out else added).to(weight.dtype)
    return out


def save_merged(model: Any, state: Mapping[str, Tensor], folder: Path) -> None:
    """Write the weights with the adapter merged, and the adapter alone in a folder within.

    Examples
    --------
    >>> import tempfile
    >>> from peft import get_peft_model
    >>> from transformers import LlamaConfig, LlamaForCausalLM
    >>> shape = {"vocab_size": 9, "hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1}
    >>> tiny = LlamaForCausalLM(LlamaConfig(**shape, num_attention_heads=2))
    >>> adapted = get_peft_model(tiny, lora_config(LoraSpec(rank=2)))
    >>> with tempfile.TemporaryDirectory() as name:
    ...     save_merged(adapted, adapted.state_dict(), Path(name))
    ...     sorted(path.name for path in Path(name).iterdir())
    ['adapter', 'config.json', 'generation_config.json', 'model.safetensors']
    """
    model.get_base_model().save_pretrained(folder, state_dict=merged(model, state))
    model.save_pretrained(folder / ADAPTER, state_dict=dict(state))
