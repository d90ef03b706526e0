"""The machine a run is on: device, peak that utilisation is against, software; what a next-token step takes on it.

A GPU whose name is that of a shipped data sheet takes the peak from it. Any other device, a CPU above all, is held
against a matrix product measured at the start: the sheet's peak of a shared CPU says little.
"""

from __future__ import annotations

import functools
import platform
import time
from typing import Any

import numpy as np
import torch

from computeledger.actuals.recording.devices import accelerator_of, installed_versions
from computeledger.actuals.recording.run import RunLedger, RunMachine
from computeledger.facts.load import load_accelerator

#: Packages whose versions are written to the ledger.
PACKAGES = ("computeledger", "torch", "transformers", "trl", "accelerate", "vllm")
#: Side of the measured matrix product, and how often it is taken; the fastest counts.
SIDE, REPEATS = 512, 5


def this_machine(device: torch.device, devices: int = 1, precision: str = "bf16") -> RunMachine:
    """Describe the machine a run is on.

    Examples
    --------
    >>> import torch
    >>> here = this_machine(torch.device("cpu"), precision="fp32")
    >>> here.devices, here.peak_source
    (1, 'measured: matrix product of side 512 in fp32')
    """
    versions = installed_versions(PACKAGES)
    name, sheet, wait = f"CPU {platform.machine()}", None, None
    if device.type == "cuda":
        name = torch.cuda.get_device_name(device)
        versions["cuda"] = str(torch.version.cuda)
        sheet = accelerator_of(name, float(torch.cuda.get_device_properties(device).total_memory))
        wait = functools.partial(torch.cuda.synchronize, device)
    if sheet is not None and precision != "fp32":
        peak, source = load_accelerator(sheet).peak(precision), f"{sheet}, {precision}"
    else:
        peak = _measured_flop_per_s(device, torch.float32 if precision == "fp32" else torch.bfloat16)
        source = f"measured: matrix product of side {SIDE} in {precision}"
    return RunMachine(name, devices, devices, peak, source, versions, wait)


def _measured_flop_per_s(device: torch.device, dtype: torch.dtype) -> float:
    """Rate of the fastest of a few matrix products."""
    left = torch.ones(SIDE, SIDE, device=device, dtype=dtype)
    best = float("inf")
    for _ in range(REPEATS):
        begun = time.perf_counter()
        float((left @ left)[0, 0])
        best = min(best, time.perf_counter() - begun)
    return 2.0 * SIDE**3 / best


def measure_next_token(books: RunLedger, model: Any, token_ids: Any, repeats: int = 3, *, warm_up: bool = True) -> None:
    """Measure what a step of next-token training takes here: forward, backward and optimizer, on the run's own devices.

    The optimizer is AdamW at learning rate 0, so the weights stay as they are; random states are put back and gradients
    dropped. A first repeat may warm up and then counts no tokens.

    Examples
    --------
    >>> import torch
    >>> from transformers import Qwen3Config, Qwen3ForCausalLM
    >>> config = Qwen3Config(vocab_size=50, hidden_size=16, intermediate_size=32, num_hidden_layers=1,
    ...     num_attention_heads=2, num_key_value_heads=1, head_dim=8)
    >>> books = RunLedger(None, config, RunMachine())
    >>> measure_next_token(books, Qwen3ForCausalLM(config), torch.zeros(2, 8, dtype=torch.long))
    >>> [round(entry.tokens_by_kind.get("trained", 0)) for entry in books.entries]
    [0, 16, 16, 16]
    """
    trained = [value for value in model.parameters() if value.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=0.0, weight_decay=0.0)
    n_sequences, length = token_ids.shape
    was_training = model.training
    model.train()
    with torch.random.fork_rng(enabled=True):
        for repeat in range(not warm_up, repeats + 1):
            with books.phase("next-token reference") as page:
                model(input_ids=token_ids, labels=token_ids).loss.backward()
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)
                if repeat:
                    page.train(np.full(n_sequences, float(length)))
    model.train(was_training)
