"""What publications call models and chips, read into shapes and systems."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import replace

from computeledger.errors import ComputeLedgerError
from computeledger.facts.architecture import Model, truncated
from computeledger.facts.counted import compact
from computeledger.facts.huggingface import parse_config
from computeledger.facts.load import (
    accelerator_ids,
    load_accelerator,
    load_model,
    load_system,
    node_gpus,
    system_ids,
)
from computeledger.facts.schema import System
from computeledger.units import BITS_PER_BYTE, GIGA, TERA

#: Words of model names, in the order tried, and the model they mean.
MODELS = {
    "llama3.1_405b": "llama-3.1-405b",
    "llama 3.1 405b": "llama-3.1-405b",
    "llama3_405b": "llama-3.1-405b",
    "llama3_70b": "llama-3.1-70b",
    "llama 3.1 70b": "llama-3.1-70b",
    "llama3 70b": "llama-3.1-70b",
    "llama3_8b": "llama-3.1-8b",
    "llama 3.1 8b": "llama-3.1-8b",
    "llama3-8b": "llama-3.1-8b",
    "llama3 8b": "llama-3.1-8b",
    "llama2-7b": "meta-llama/Llama-2-7b-hf",
    "deepseekv4 flash": "deepseek-v4-flash",
    "deepseekv3": "deepseek-v3",
    "deepseek-v3": "deepseek-v3",
    "deepseekv2": "deepseek-ai/DeepSeek-V2",
    "gpt oss 120b": "gpt-oss-120b",
    "gpt-oss 120b": "gpt-oss-120b",
    "gpt-oss 20b": "gpt-oss-20b",
    "qwen3_30b_a3b": "qwen3-30b-a3b",
    "qwen3 moe 30b": "qwen3-30b-a3b",
    "qwen3_235b_a22b": "qwen3-235b-a22b",
    "kimi_k2": "kimi-k2-instruct",
    "kimi k2": "kimi-k2-instruct",
    "nemotron_3_nano": "nemotron-3-nano",
    "nemotron v3 nano": "nemotron-3-nano",
    "nemotron_3_super": "nemotron-3-super",
    "nemotron v3 super": "nemotron-3-super",
    "nemotron_3_ultra": "nemotron-3-ultra",
    "nemotron_3_5_lightning": "nvidia/NVIDIA-Nemotron-3.5-Lightning-30B-A3B-NVFP4",
    "qwen3-4b": "Qwen/Qwen3-4B",
    "intellect-3": "glm-4.5-air",
    "megatron-22b": "megatron-gpt-22b",
    "gpt3-175b": "megatron-gpt-175b",
    "gpt 175b": "megatron-gpt-175b",
    "turing-530b": "megatron-gpt-530b",
    "megatron-1t": "megatron-gpt-1t",
    "gpt 3.6b": "megatron-gpt-3.6b",
    "gpt 18.4b": "megatron-gpt-18.4b",
    "gpt 39.1b": "megatron-gpt-39.1b",
    "gpt 76.1b": "megatron-gpt-76.1b",
    "gpt 310.1b": "megatron-gpt-310.1b",
    "gpt 529.6b": "megatron-gpt-530b",
    "gpt 1008.0b": "megatron-gpt-1t",
    "gpt-3 175b": "megatron-gpt-175b",
    "internlm 7b": "internlm-7b",
    "internlm 20b": "internlm-20b",
    "nemotron-4 340b": "nemotron-4-340b-base",
    "nemotron-4 15b": "nemotron-4-15b",
    "grok-1": "grok-1",
    "llama 4 maverick": "llama-4-maverick-17b-128e",
    "llama 4 scout": "llama-4-scout-17b-16e",
    "llama 3 70b": "meta-llama/Meta-Llama-3-70B",
    "llama 3 8b": "meta-llama/Meta-Llama-3-8B",
    "llama 2 7b": "meta-llama/Llama-2-7b-hf",
    "llama 2 13b": "meta-llama/Llama-2-13b-hf",
    "llama 2 70b": "meta-llama/Llama-2-70b-hf",
    "mistral 7b": "mistralai/Mistral-7B-v0.3",
    "bloom-176b": "bigscience/bloom",
    "gemma 4 31b": "nvidia/Gemma-4-31B-IT-NVFP4",
    "gpt3 175b": "megatron-gpt-175b",
    "mixtral 8x7b": "mistralai/Mixtral-8x7B-v0.1",
    "mixtral 8x22b": "mistralai/Mixtral-8x22B-v0.1",
    "deepseek v3": "deepseek-v3",
    "llama 7b": "meta-llama/Llama-2-7b-hf",
    "llama 13b": "meta-llama/Llama-2-13b-hf",
}


#: A shape that a row states in its own words.
_STATED = re.compile(r"bloom-like .*\(d=(?P<hidden>\d+), l=(?P<layers>\d+), (?P<heads>\d+) heads\)")


class SkippedRunError(ComputeLedgerError):
    """A configuration that cannot be predicted; its text is the reason."""


#: Sizes in a name, such as 30B-A3B or 5B, that stand for a shape nobody ships.
_SIZES = re.compile(r"(?<![\w.])e?(?P<total>\d+(?:\.\d+)?)b(?:[- ]?a(?P<active>\d+(?:\.\d+)?)b)?(?![\w.])")


def named_model(row: Mapping[str, str]) -> Model:
    """Find the model of a row: by its name, by a shape in words, else by its sizes through the rule of shapes.

    Examples
    --------
    >>> named_model({"model": "Llama 3.1 8B (SFT)"}).id, named_model({"model": "GPT-3 5B"}).guessed
    ('meta-llama/Meta-Llama-3.1-8B', ('layers', 'hidden', 'kv'))
    """
    name = re.sub(r"\s*\((?:lora|sft|qlora|full|proxy)[^)]*\)", "", row["model"].strip().lower())
    if (stated := _STATED.fullmatch(name)) is not None:
        return _bloom_like(stated)
    wanted = next((model for word, model in MODELS.items() if word in name), None)
    if name.startswith("mpt-"):
        wanted = f"mosaicml/{name}"
    if name.startswith("maxtext "):
        wanted = f"google/{name.replace(' ', '-')}"
    for one in (wanted or name, _sizes(row, name)):
        try:
            model = load_model(one)
        except ComputeLedgerError:
            continue
        cut = re.search(r"truncated to (\d+) layers", name)
        return truncated(model, int(cut[1])) if cut else model
    raise SkippedRunError("model not known")


def _sizes(row: Mapping[str, str], name: str) -> str:
    """The sizes of a model as numbers say them: its columns, else its name; empty where neither does."""
    total, active = (_billions(row.get(one) or "") for one in ("params_total", "params_active"))
    found = _SIZES.search(name)
    if total is None and found is not None and ".." not in name:
        total, active = float(found["total"]), _billions((found["active"] or "0") + "e9")
    if total is None:
        return ""
    return f"{total:g}B-A{active:g}B" if active and active < total else f"{total:g}B"


def _billions(text: str) -> float | None:
    try:
        return float(text) / GIGA or None
    except ValueError:
        return None


def _bloom_like(stated: re.Match[str]) -> Model:
    """BLOOM with other widths: layers, heads and hidden size as a row states them."""
    vocabulary = load_model("bigscience/bloom").vocab_size
    hidden, layers, heads = (int(stated[name]) for name in ("hidden", "layers", "heads"))
    fields = {"hidden_size": hidden, "num_hidden_layers": layers, "num_attention_heads": heads}
    return parse_config({"model_type": "bloom", "vocab_size": vocabulary, **fields}, stated[0])


#: What clouds call chips.
_INSTANCES = {
    "trn1": "trainium1",
    "trn2": "trainium2",
    "trn3": "trainium3",
    "trillium": "tpu-v6e",
    "ironwood": "tpu-v7",
}
#: Compute dies that software counts as devices, by chip.
DEVICES = {"trainium1": 2, "trainium2": 8, "tpu-v7": 2, "mi250x": 2, "tpu-v4": 1}


@functools.cache
def _chips() -> Mapping[str, str]:
    """Accelerators by what people call them, the longest name first."""
    chips = [load_accelerator(one) for one in accelerator_ids()]
    named = {compact(name): one.id for one in chips for name in (one.id, one.name, one.short_name, *one.aliases)}
    plain = {system.accelerator.short_name.lower(): system.accelerator.id for system in map(load_system, system_ids())}
    every = {**named, **plain, **_INSTANCES}
    return dict(sorted(every.items(), key=lambda item: -len(item[0])))


@functools.cache
def _system_of(chip_id: str) -> System:
    """The shipped system of a chip, else its full node."""
    shipped = next((one for one in system_ids() if load_system(one).accelerator.id == chip_id), None)
    return load_system(shipped or f"{node_gpus(load_accelerator(chip_id))}x{chip_id}")


def named_system(row: Mapping[str, str], notes: str) -> System:
    """Find the system that a row ran on, with the memory and the network that it states.

    Examples
    --------
    >>> [named_system({"source": "", "hardware": one}, "").id for one in ("MI300X", "trn1.32xlarge", "A100 40GB")]
    ['mi300x-8', '16xtrainium1', '8xa100-sxm4-40gb']
    """
    text = row["hardware"].lower()
    if "placeholder" in text or not text:
        named = re.search(r"config_\w+|system: [\w-]+", notes, re.IGNORECASE)
        text = named[0].lower() if named else text
    if "prime-rl" in row["source"] and "b200" in text:
        raise SkippedRunError("the source's software had no kernels for the chip yet")
    said = compact(text)
    chip_id = next((chip for name, chip in _chips().items() if name in said), None)
    if chip_id is None:
        raise SkippedRunError("system not known")
    system = _system_of(chip_id)
    stated = re.search(r"([\d.]+)tb/s", text)
    if stated:
        chip = system.accelerator
        bandwidth = replace(chip.hbm_bytes_per_s, value=float(stated[1]) * TERA)
        system = replace(system, accelerator=replace(chip, hbm_bytes_per_s=bandwidth))
    return _with_network(system, f"{text}; {notes}; {row.get('note') or ''}")


def _with_network(system: System, said: str) -> System:
    """A system whose nodes have the links between them that a row states: ``4x100 Gb/s per node``."""
    found = re.search(r"(\d+) ?x ?(\d+) ?gb(?:it)?/s\b[^;]*per node", said.lower())
    if found is None:
        return system
    per_gpu = int(found[1]) * int(found[2]) * GIGA / BITS_PER_BYTE / system.n_gpus_scale_up.value
    fact = system.scale_out_bytes_per_s_per_gpu
    return replace(system, scale_out_bytes_per_s_per_gpu=replace(fact, value=per_gpu))
