"""Memory as a design variable: the same stage of GPUs in more pipeline stages, each GPU with less HBM.

A stage's share of the weights falls as ``1 / pp``; the cache on a GPU does not, because ``pp`` batches are under way.
What the GPU could be built without is worth the price of HBM; it costs a replica of ``pp`` times the GPUs, and hops.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from computeledger.arrays import Num
from computeledger.economics.hosting.cost import annuity_fraction
from computeledger.economics.hosting.kv_tiers import HBM, TierMarket, load_tier_market
from computeledger.errors import QuantityError
from computeledger.physics.roofline import Machine
from computeledger.physics.serving.memory import CACHE_FRACTION
from computeledger.units import HOURS_PER_YEAR
from computeledger.workloads.serving.estimate import ServingScenario, estimate_serving

#: Pipeline stages that are compared.
STAGES = (1, 2, 4, 8)


@dataclass(frozen=True, slots=True)
class MemoryDesign:
    """One number of pipeline stages.

    Attributes
    ----------
    stages : int
        Pipeline stages, ``pp`` [-].
    n_gpus : int
        Of the replica [-].
    batch : float or ndarray
        Sequences of the replica: as many per stage as asked, times the stages [-].
    hbm_bytes : float or ndarray
        HBM that a GPU needs for that load [byte].
    hbm_usd_per_gpu : float or ndarray
        Purchase of that HBM [USD].
    saved_usd_per_gpu : float or ndarray
        HBM of the accelerator as it is built, less that; negative where it needs more [USD].
    saved_usd_per_gpu_hour : float or ndarray
        The same as a payment per used hour [USD/h].
    tpot_s, ttft_s : float or ndarray
        Time per output token and to the first one [s].
    output_tokens_per_s_per_gpu : float or ndarray
        Throughput [token/s].
    usd_per_mtok_output : float or ndarray
        Cost of decoding with the saving taken off the price of the GPU-hour [USD/Mtok].
    """

    stages: int
    n_gpus: int
    batch: Num
    hbm_bytes: Num
    hbm_usd_per_gpu: Num
    saved_usd_per_gpu: Num
    saved_usd_per_gpu_hour: Num
    tpot_s: Num
    ttft_s: Num
    output_tokens_per_s_per_gpu: Num
    usd_per_mtok_output: Num


def design_memory(
    scenario: ServingScenario,
    machine: Machine,
    draws: Mapping[str, Num] | None = None,
    market: TierMarket | None = None,
) -> tuple[MemoryDesign, ...]:
    """Compare pipeline depths of one stage of GPUs at the same load per stage.

    The bandwidth of the HBM is kept: fewer dies per stack, not fewer stacks (assumption).

    Parameters
    ----------
    scenario : ServingScenario
        Its layout gives the stage, its batch what the stage works on at a time.
    machine : Machine
        One GPU, its links, and what they reach.
    draws : mapping of str to float or ndarray, optional
        Samples of :meth:`computeledger.economics.hosting.kv_tiers.TierMarket.uncertain`.
    market : TierMarket, optional
        Facts; the newest when left out.

    Returns
    -------
    tuple of MemoryDesign
        For 1, 2, 4 and 8 stages, as far as the model has layers.

    Raises
    ------
    QuantityError
        Where the edition does not price HBM.

    Examples
    --------
    >>> from computeledger.facts.load import load_model, load_system
    >>> from computeledger.physics.parallelism import Layout
    >>> from computeledger.physics.roofline import Precision
    >>> model = load_model("llama-3.1-70b")
    >>> scenario = ServingScenario(model, Layout(tp=8), Precision(), 1024.0, 256.0, 32.0, 0.0, 2.0)
    >>> one, two, *_ = design_memory(scenario, Machine(load_system("h100-nvl8")))
    >>> bool(two.hbm_bytes < one.hbm_bytes), bool(abs(two.tpot_s / one.tpot_s - 1) < 0.05)
    (True, True)
    """
    market = market or load_tier_market()
    name = f"tiers.{HBM}.usd_per_byte"
    if name not in market.facts():
        raise QuantityError(f"tier edition {market.tiers.id} has no {HBM}: the price of HBM is needed")
    values = {key: fact.value for key, fact in market.facts().items()} | dict(draws or {})
    yearly = annuity_fraction(values["ownership.cost_of_capital_fraction"], values["ownership.life_years"])
    per_hour = yearly / HOURS_PER_YEAR / market.ownership.occupancy_fraction.value
    return tuple(
        _design(replace(scenario, layout=replace(scenario.layout, pp=stages), batch=_batch(scenario, stages)), machine,
                values[name], per_hour)
        for stages in STAGES if stages <= scenario.model.n_layers
    )  # fmt: skip


def _batch(scenario: ServingScenario, stages: int) -> Num:
    return scenario.batch / scenario.layout.pp * stages


def _design(scenario: ServingScenario, machine: Machine, usd_per_byte: Num, payment_per_hour: Num) -> MemoryDesign:
    built = machine.system.accelerator.hbm_bytes.value
    result = estimate_serving(scenario, machine)
    held = result.memory
    needed = held.total_bytes + (1 / CACHE_FRACTION - 1) * held.kv_cache_bytes
    saved = (built - needed) * usd_per_byte
    price = np.maximum(scenario.usd_per_gpu_hour - saved * payment_per_hour, 0.0)
    return MemoryDesign(
        stages=int(scenario.layout.pp),
        n_gpus=int(scenario.layout.n_gpus),
        batch=scenario.batch,
        hbm_bytes=needed,
        hbm_usd_per_gpu=needed * usd_per_byte,
        saved_usd_per_gpu=saved,
        saved_usd_per_gpu_hour=saved * payment_per_hour,
        tpot_s=result.tpot_s,
        ttft_s=result.ttft_s,
        output_tokens_per_s_per_gpu=result.output_tokens_per_s_per_gpu,
        usd_per_mtok_output=replace(result, scenario=replace(scenario, usd_per_gpu_hour=price)).usd_per_mtok_output,
    )
