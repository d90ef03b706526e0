"""Tiers below HBM that keep idle caches: how many tokens they hold, and how fast a replica loads them."""

from __future__ import annotations

from typing import Any

from computeledger.economics.hosting.kv_tiers import DEVICES_PER_GPU
from computeledger.facts.editions import load_tiers
from computeledger.facts.schema import PRECISION_BYTES, System
from computeledger.physics.parallelism import Layout
from computeledger.physics.roofline import Machine
from computeledger.physics.serving.memory import token_bytes_per_gpu
from computeledger.physics.serving.offload import LINK_BYTES_PER_S
from computeledger.questions.grounds import fact_document
from computeledger.simulation.prefix_cache import Tier
from computeledger.workloads.questions.conversations import Conversing
from computeledger.workloads.serving.estimate import ServingScenario

#: The edition's entry that flash is read as fast as, with as many drives per GPU as `serve --kv-tiers` has.
FLASH = "nvme-4tb"


def host_link_bytes_per_s(machine: Machine) -> float:
    """Rate from host memory to one GPU: the system's own, else what `serve --host-link` assumes.

    Examples
    --------
    >>> from computeledger.facts.load import load_system
    >>> host_link_bytes_per_s(Machine(load_system("gb200-nvl72"))) / 1e9
    225.0
    """
    link = machine.system.host_link_bytes_per_s_per_gpu
    return LINK_BYTES_PER_S if link is None else float(link.value)


def host_caches_document(question: Conversing, layout: Layout, system: System) -> dict[str, Any]:
    """Caches in host memory beside what a node has for the GPUs of a replica; nothing where it is not known.

    Examples
    --------
    >>> from computeledger.facts.load import load_system
    >>> question = Conversing(turns=10, host_cache="600GB")
    >>> host_caches_document(question, Layout(tp=2), load_system("h100-nvl8"))["host_caches"]["fits"]
    False
    """
    room = system.host_bytes_per_gpu
    if question.host_cache is None or room is None:
        return {}
    whole = float(room.value) * float(layout.n_gpus)
    held = {"caches_bytes": float(question.host_cache), "of_replica_bytes": whole, "n_gpus": int(layout.n_gpus)}
    return {"host_caches": held | {"fits": question.host_cache <= whole, "host_bytes_per_gpu": fact_document(room)}}


def cache_tiers(scenario: ServingScenario, machine: Machine, question: Conversing) -> tuple[Tier, ...]:
    """The tiers of a question, the fastest first; every GPU of a replica loads its own part of a cache.

    Examples
    --------
    >>> from computeledger.facts.load import load_model, load_system
    >>> from computeledger.physics.roofline import Precision
    >>> scenario = ServingScenario(load_model("llama-3.1-8b"), Layout(), Precision(), 1.0, 1.0, 1.0)
    >>> question = Conversing(turns=10, host_cache="131GB")
    >>> cache_tiers(scenario, Machine(load_system("h100-nvl8")), question)[0].kv_tokens
    999450
    """
    layout, size = scenario.layout, PRECISION_BYTES[scenario.precision.kv]
    per_gpu = float(token_bytes_per_gpu(scenario.model, layout, size))
    kept = per_gpu * float(layout.tp * layout.pp)  # as an engine keeps it: what GPUs hold twice is kept twice
    link = host_link_bytes_per_s(machine)
    flash = float(load_tiers().tiers[FLASH].read_bytes_per_s.value) * DEVICES_PER_GPU.get(FLASH, 1.0)
    out = []
    if question.host_cache is not None:
        out.append(Tier("host", int(question.host_cache / kept), per_gpu / link))
    if question.ssd_cache is not None:
        out.append(Tier("ssd", int(question.ssd_cache / kept), per_gpu / min(link, flash)))
    if question.pool_cache is not None:
        once = float(token_bytes_per_gpu(scenario.model, Layout(), size))
        nic = float(machine.scale_out_bytes_per_s)
        out.append(Tier("pool", int(question.pool_cache / once), per_gpu / nic, is_shared=True))
    return tuple(out)
