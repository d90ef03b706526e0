"""Serving engines: one file each, found by being there. Their fitted constants are in the calibration."""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Mapping

from computeledger.workloads.engines.engine import Engine

#: The module that says what an engine is, among those that are one.
_RECORD = "engine"


@functools.cache
def engines() -> Mapping[str, Engine]:
    """Find the engines that this folder describes.

    Examples
    --------
    >>> [name for name, engine in engines().items() if engine.can_launch]
    ['sglang', 'trtllm', 'vllm']
    """
    names = sorted(module.name for module in pkgutil.iter_modules(__path__) if module.name != _RECORD)
    found: list[Engine] = [importlib.import_module(f"{__name__}.{name}").ENGINE for name in names]
    return {one.id: one for one in found}


def reads_prompts_first(engine: str) -> bool:
    """Whether an engine reads all prompts that wait before it decodes on.

    Examples
    --------
    >>> reads_prompts_first("sglang"), reads_prompts_first("vllm")
    (True, False)
    """
    return engine in engines() and engines()[engine].reads_prompts_first


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
