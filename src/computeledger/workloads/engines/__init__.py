"""Serving engines: one file each, found by being there. Their fitted constants are in the calibration."""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Mapping
from typing import TYPE_CHECKING

from computeledger.errors import unknown_id
from computeledger.physics.calibration.local import local_engines, local_profile
from computeledger.physics.calibration.serving import DEFAULT_ENGINE, GENERIC, calibrated_engines
from computeledger.physics.weights import precision_of, stored_precision
from computeledger.workloads.engines.engine import Engine

if TYPE_CHECKING:
    from computeledger.facts.architecture import Model
    from computeledger.facts.schema import Accelerator
    from computeledger.physics.roofline import Precision

#: The modules that are no engine: what one is, when releases came out, and what they can be told.
_OTHERS = ("engine", "flags", "releases", "settings")


@functools.cache
def engines() -> Mapping[str, Engine]:
    """Find the engines that this folder describes.

    Examples
    --------
    >>> [name for name, engine in engines().items() if engine.can_launch]
    ['atom', 'llama.cpp', 'lmdeploy', 'mlx', 'sglang', 'sglang-jax', 'tgi', 'trtllm', 'vllm']
    """
    names = sorted(module.name for module in pkgutil.iter_modules(__path__) if module.name not in _OTHERS)
    found: list[Engine] = [importlib.import_module(f"{__name__}.{name}").ENGINE for name in names]
    return {one.id: one for one in found}


@functools.cache
def backends() -> tuple[str, ...]:
    """Name what ``--backend`` takes: the default, engines with constants, engines without, and the physical limit.

    Examples
    --------
    >>> backends()[0], backends()[-2:]
    ('vllm', ('generic', 'ideal'))
    """
    fitted = (DEFAULT_ENGINE, *calibrated_engines(), *local_engines())
    return tuple(dict.fromkeys((*fitted, *sorted(engines()), GENERIC, "ideal")))


def default_engine(chip: Accelerator) -> str:
    """Name the engine that answers where a question names none: one that people run on such a chip.

    Examples
    --------
    >>> from computeledger.facts.load import load_accelerator
    >>> [default_engine(load_accelerator(chip)) for chip in ("h100-sxm5-80gb", "m4-max")]
    ['vllm', 'llama.cpp']
    """
    return next((name for name, one in engines().items() if chip.family in one.default_on), DEFAULT_ENGINE)


def constants_of(engine: str, chip: Accelerator) -> str:
    """Name the constants that hold for an engine on a chip: its own, those of the chip's kind, or the generic ones.

    Examples
    --------
    >>> from computeledger.facts.load import load_accelerator
    >>> h100 = load_accelerator("h100-sxm5-80gb")
    >>> constants_of("sglang", h100), constants_of("tgi", h100)
    ('sglang', 'generic')
    """
    is_file = engine.endswith(".toml") or "/" in engine
    if is_file or engine in (*calibrated_engines(), GENERIC, "assumed", "ideal"):
        return engine
    if engine in local_engines():
        return local_profile(engine, chip)
    if engine in engines():
        return GENERIC
    raise unknown_id("engine", engine, backends())


def default_file(engine: str, model: Model) -> str | None:
    """Format of the file that an engine's users download of a checkpoint that it does not run as it is stored.

    Examples
    --------
    >>> from computeledger.facts.load import load_model
    >>> [default_file("llama.cpp", load_model(one)) for one in ("gpt-oss-20b", "deepseek-v3", "llama-3.1-8b")]
    ['gguf-mxfp4', 'gguf-q8_0', None]
    """
    if model.stored is not None or engine not in engines():
        return None
    return engines()[engine].default_files.get(stored_precision(model).name)


def precision_on(engine: str, model: Model, given: str | None, kv: str = "bf16") -> Precision:
    """The precision that was asked for, else that of the engine's default file, else the stored one.

    Examples
    --------
    >>> from computeledger.facts.load import load_model
    >>> gpt_oss = load_model("gpt-oss-20b")
    >>> precision_on("vllm", gpt_oss, None).attention, precision_on("llama.cpp", gpt_oss, None).attention
    ('bf16', 'q8_0')
    """
    return precision_of(model, given or default_file(engine, model), kv)


def reads_prompts_first(engine: str) -> bool:
    """Whether an engine reads all prompts that wait before it decodes on.

    Examples
    --------
    >>> reads_prompts_first("sglang"), reads_prompts_first("vllm")
    (True, False)
    """
    return engine in engines() and engines()[engine].reads_prompts_first


def scheduler_of(engine: str) -> str:
    """Name the scheduler that simulations give an engine.

    Examples
    --------
    >>> [scheduler_of(one) for one in ("vllm", "sglang", "trtllm", "ideal")]
    ['vllm', 'sglang', 'trtllm', 'plain']
    """
    return engines()[engine].scheduler if engine in engines() else "plain"


def named_engine(text: str) -> str | None:
    """Find the engine that a publication is about.

    Examples
    --------
    >>> [named_engine(text) for text in ("TensorRT-LLM tech blog 3", "DeepSeek open-infra-index day 6", "MLPerf")]
    ['trtllm', 'sglang', None]
    """
    said = text.lower()
    for words in ("names", "publishers"):
        for name, engine in engines().items():
            if any(word in said for word in getattr(engine, words)):
                return name
    return None
