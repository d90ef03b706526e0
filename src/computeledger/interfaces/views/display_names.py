"""Names in place of ids in the sentences of a view: options take ``h200-nvl8``, readers read *8 H200*."""

from __future__ import annotations

import re
from dataclasses import replace

from computeledger.facts.counted import called
from computeledger.facts.load import accelerator_ids, load_accelerator, load_system, system_ids
from computeledger.interfaces.view import View

#: An id alone or counted, such as ``8xl40s``, that is no part of a path, of a longer name or of a command.
_ID = re.compile(r"`[^`]*`|(?<![\w./-])(?:(?P<count>\d+)x)?(?P<id>[a-z][a-z0-9]*(?:-[a-z0-9]+)*)(?![\w/-]|\.\w)")


def view_in_names(view: View) -> View:
    """A view whose sentences name what it is about.

    Examples
    --------
    >>> view_in_names(View("one H200 in h200-nvl8: `computeledger facts show h200-nvl8`")).headline
    'one H200 in 8 H200: `computeledger facts show h200-nvl8`'
    """
    return replace(
        view,
        headline=in_names(view.headline),
        context=in_names(view.context),
        tiles=tuple(replace(one, band=in_names(one.band)) for one in view.tiles),
        facts=tuple((label, in_names(text)) for label, text in view.facts),
    )


def in_names(text: str) -> str:
    """A sentence with the names of accelerators and systems in place of their ids.

    Examples
    --------
    >>> in_names("a used GPU-hour of h100-sxm5-80gb"), in_names("cheaper than gb200-nvl72, 4xl40s or own-h100")
    ('a used GPU-hour of H100', 'cheaper than GB200 NVL72, 4 L40S or own-h100')
    """
    return _ID.sub(_named, text)


def chip_name(name: str) -> str:
    """What people call a shipped accelerator; the id of another one.

    Examples
    --------
    >>> chip_name("h100-sxm5-80gb"), chip_name("ours-96gb")
    ('H100', 'ours-96gb')
    """
    if name not in accelerator_ids():
        return name
    return load_accelerator(name).short_name or load_accelerator(name).name


def _named(match: re.Match[str]) -> str:
    name, count = match["id"], match["count"]
    if name in accelerator_ids():
        said = chip_name(name)
        return f"{count} {said}" if count else said
    if count is None and name in system_ids():
        return system_words(name)
    return match[0]


#: Engines, frameworks and benchmarks by their ids: what their makers call them.
_ENGINES = {
    "vllm": "vLLM", "sglang": "SGLang", "sglang-jax": "SGLang JAX", "trtllm": "TensorRT-LLM", "tgi": "TGI",
    "lmdeploy": "LMDeploy", "atom": "ATOM", "mlx": "MLX", "megatron-bridge": "Megatron Bridge",
    "megatron-lm": "Megatron-LM", "llm-foundry": "LLM Foundry", "nemo": "NeMo", "nemo-automodel": "NeMo AutoModel",
    "maxtext": "MaxText", "fsdp2": "FSDP2", "torchtitan": "TorchTitan", "deepspeed": "DeepSpeed",
    "deepspeed-mii": "DeepSpeed-MII", "internevo": "InternEvo", "optimum-habana": "Optimum Habana",
    "gpt-fast": "gpt-fast", "neuronx": "NeuronX", "primus": "Primus",
}  # fmt: skip
_BENCHMARKS = {
    "aime-2024": "AIME 2024", "aime-2025": "AIME 2025", "gpqa-diamond": "GPQA diamond", "math-500": "MATH-500",
    "math-level-5": "MATH level 5", "otis-mock-aime": "OTIS mock AIME", "frontiermath": "FrontierMath",
    "frontiermath-tier-4": "FrontierMath tier 4", "swe-bench-verified": "SWE-bench Verified",
    "aider-polyglot": "Aider polyglot",
}  # fmt: skip


def engine_name(name: str) -> str:
    """What people call a serving engine or a training framework; the id of another one.

    Examples
    --------
    >>> engine_name("trtllm"), engine_name("llama.cpp")
    ('TensorRT-LLM', 'llama.cpp')
    """
    return _ENGINES.get(name, name)


def benchmark_name(name: str) -> str:
    """What people call a benchmark; the id of another one.

    Examples
    --------
    >>> benchmark_name("aime-2024"), benchmark_name("eci")
    ('AIME 2024', 'eci')
    """
    return _BENCHMARKS.get(name, name)


def format_words(precision: str) -> str:
    """What a reader calls a format of weights: a file's mix by its bits, then by its name.

    Examples
    --------
    >>> format_words("gguf-q4_k_m"), format_words("bf16")
    ('4-bit (GGUF Q4_K_M)', 'bf16')
    """
    found = re.fullmatch(r"gguf-(\w*?q(\d)\w*)", precision)
    return f"{found[2]}-bit (GGUF {found[1].upper()})" if found else precision


def system_words(name: str) -> str:
    """What a reader calls a shipped system.

    Examples
    --------
    >>> system_words("h200-nvl8"), system_words("gb200-nvl72"), system_words("tpu-v5e-pod")
    ('8 H200', 'GB200 NVL72', 'TPU v5e pod')
    """
    return called(load_system(name))
