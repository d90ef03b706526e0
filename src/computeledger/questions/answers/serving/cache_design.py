"""The cache that a wanted context allows at a serving answer's price and speed: bytes, layers, heads, bits."""

from __future__ import annotations

import math
from typing import Any

from computeledger.arrays import median
from computeledger.facts.schema import PRECISION_BYTES
from computeledger.physics.serving.context import kv_read_bytes_per_gpu, layers_with_cache
from computeledger.physics.serving.memory import sequence_bytes_per_gpu
from computeledger.workloads.serving.estimate import ServingResult

#: Entries that are tried beside the model's own: values of one token and layer, and shares that tensor parallelism can
#: make of them (an assumption: heads of 128 values, and the latent vector of DeepSeek-V3).
ENTRIES = {
    "8 KV heads of 128": (2048, 8),
    "4 KV heads of 128": (1024, 4),
    "2 KV heads of 128": (512, 2),
    "1 KV head of 128": (256, 1),
    "latent vector of 512 + 64": (576, 1),
}
BITS = (16, 8, 4)


def cache_design_document(result: ServingResult, context_tokens: float) -> dict[str, Any]:
    """What keeps the answer's batch, time per token and cost at a longer context.

    A step reads no more of the cache and the memory holds no more of it than at the answer's own context; the
    products of attention are not counted.

    Examples
    --------
    >>> from computeledger.questions.answers.serving.answer import serve
    >>> result = serve(model="llama-3.1-8b", system="h100-nvl8", layout="tp1", batch=8, samples=16).result
    >>> short, long = (cache_design_document(result, n) for n in (1e5, 1e6))
    >>> round(short["bytes_per_token"] / long["bytes_per_token"], 6)
    10.0
    """
    scenario = result.scenario
    model, layout = scenario.model, scenario.layout
    size = PRECISION_BYTES[scenario.precision.kv]
    here = median(scenario.cached_tokens + scenario.input_tokens + scenario.output_tokens / 2)
    room = median(result.memory.sequence_bytes) * max(median(result.memory.largest_batch / scenario.batch), 1.0)
    read = float(median(kv_read_bytes_per_gpu(model, here, layout, size)))
    budget = min(read, room) / context_tokens
    stages = float(layout.cp * layout.pp)
    entries = [
        {
            "entry": name,
            "values": values,
            "n_layers": {
                str(bits): min(
                    math.floor(layers_with_cache(budget * stages, values, bits / 8, min(shares, layout.tp))),
                    model.n_layers,
                )
                for bits in BITS
            },
        }
        for name, (values, shares) in ENTRIES.items()
    ]
    own_read = float(median(kv_read_bytes_per_gpu(model, context_tokens, layout, size)))
    own_held = float(median(sequence_bytes_per_gpu(model, context_tokens, layout, size)))
    return {
        "context_tokens": context_tokens,
        "n_layers": model.n_layers,
        "bytes_per_token_per_gpu": budget,
        "bytes_per_token": budget * stages * float(layout.tp),
        "bound": "reading" if read <= room else "memory",
        "own_bytes_per_token": own_held * stages * float(layout.tp) / context_tokens,
        "own_read_fraction": read / own_read if own_read else None,
        "own_held_fraction": room / own_held if own_held else None,
        "entries": entries,
        "assumed": "batch, time per token and cost as in the answer; attention's products not counted",
    }
