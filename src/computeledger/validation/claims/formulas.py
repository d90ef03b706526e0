"""Arithmetic that claims need between the project's own formulas: means, rounding, an interval by sampling."""

from __future__ import annotations

import numpy as np

from computeledger.arrays import Num, Range, median, sample
from computeledger.economics.thinking.samples import base_samples_ratio, exponent_ratios
from computeledger.errors import FactError
from computeledger.facts.load import load_model, load_system
from computeledger.frontier.abilities import trains
from computeledger.frontier.spread import Spread, steps_by_domain
from computeledger.frontier.steps import run_model
from computeledger.frontier.systems import described_system
from computeledger.physics.attention import mixer_of
from computeledger.physics.blackboard import estimates as blackboard_estimates
from computeledger.physics.blackboard import ledgers as blackboard
from computeledger.physics.calibration.efficiency import efficiency
from computeledger.physics.parallelism import parse_layout
from computeledger.physics.roofline import Machine, Precision
from computeledger.units import BITS_PER_BYTE
from computeledger.workloads.serving.estimate import ServingScenario, estimate_serving


def geometric_mean(value: Num) -> float:
    """Middle of positive numbers that span orders of magnitude.

    Examples
    --------
    >>> import numpy as np
    >>> round(geometric_mean(np.array([4.0, 5.0])), 3)
    4.472
    """
    return float(np.exp(np.mean(np.log(value))))


def widest_ratio(value: Num) -> float:
    """How wide an interval is, its high end over its low end.

    Examples
    --------
    >>> import numpy as np
    >>> widest_ratio(np.array([10.0, 100.0]))
    10.0
    """
    return float(np.max(value) / np.min(value))


def whole_samples(n_samples: Num) -> Num:
    """Samples rounded up, because half a sample solves nothing.

    Examples
    --------
    >>> float(whole_samples(19.8))
    20.0
    """
    return np.asarray(np.ceil(n_samples))


def samples_of_the_base(more: float, fewer: float) -> Num:
    """How far two amounts of a trained model's samples lie apart in samples of its base, by published pairs.

    Ends and median of 90 % of the pairs of a model before and after RL: each gives the ratio of the exponents of
    coverage.

    Examples
    --------
    >>> low, median, high = samples_of_the_base(10_000, 50)
    >>> bool(1 < low < median < high <= 200)
    True
    """
    ratios = [base_samples_ratio(more, fewer, 1.0, ratio) for _, _, ratio in exponent_ratios()]
    return np.quantile(ratios, [0.05, 0.5, 0.95])


def backward_flop(n_params_active: Num, tokens: Num) -> Num:
    """Compute of the backward pass: training without its forward pass.

    Examples
    --------
    >>> backward_flop(1.0, 1.0)
    4.0
    """
    return blackboard.pretraining_flop(n_params_active, tokens) - blackboard.inference_flop(n_params_active, tokens)


def bits_per_s(rate_bytes_per_s: Num) -> Num:
    """A rate as networks state it.

    Examples
    --------
    >>> bits_per_s(1.62e12)
    12960000000000.0
    """
    return rate_bytes_per_s * BITS_PER_BYTE


def lifetime_tokens_interval(tokens_per_s: Num, lifetime_s: Num) -> Num:
    """90 % interval of what a model serves in its life, where rate and life are 90 % intervals themselves.

    Examples
    --------
    >>> import numpy as np
    >>> low, high = lifetime_tokens_interval(np.array([1e7, 1e8]), np.array([2592000.0, 7776000.0]))
    >>> f"{low:.1e}", f"{high:.1e}"
    ('4.0e+13', '5.1e+14')
    """
    inputs = {
        "rate": Range(float(np.min(tokens_per_s)), float(np.max(tokens_per_s))),
        "life": Range(float(np.min(lifetime_s)), float(np.max(lifetime_s))),
    }
    drawn = sample(inputs, n_samples=2**18)
    return np.quantile(blackboard_estimates.lifetime_tokens(drawn["rate"], drawn["life"]), [0.05, 0.95])


def split_links_bits_per_s(n_chips: Num, n_sites: Num, duration_s: Num, batch_tokens: Num | None = None) -> Num:
    """Rate between the sites of a split GB200 system that trains its compute-optimal dense model.

    The run fills the time; the step is the operation model's, an exchange takes a sixth of it.

    Examples
    --------
    >>> bool(3 * split_links_bits_per_s(5e5, 2.0, 1.05e7) < split_links_bits_per_s(5e5, 2.0, 1.05e7, 2.0**24))
    True
    """
    system = described_system(f"{float(n_chips)!r} chips of gb200-gpu")
    run = trains(system, float(duration_s))["dense"]
    critical = median(run.critical_batch_tokens)
    sites, batch = int(n_sites), critical if batch_tokens is None else float(batch_tokens)
    spread = Spread(median(run.n_params_total), 1.0, sites)
    job = int(n_chips) // sites, batch / sites
    domain = load_system("gb200-nvl72")
    (step,) = steps_by_domain(run_model(run, "dense"), domain, job, spread, 1 / 6, ())
    if step.result is None:
        raise FactError(step.problem)
    return bits_per_s(step.result.bytes_per_s)


def decode_hop_s(batch: Num) -> Num:
    """Time of one pipeline hop while decoding, from the operations of Llama 3.1 405B on four stages of eight H100.

    Examples
    --------
    >>> bool(1e-6 < decode_hop_s(4.0) < decode_hop_s(1024.0) < 1e-4)
    True
    """
    layout = parse_layout("tp8-pp4")
    machine = Machine(load_system("h100-nvl8"), efficiency("vllm"))
    model = load_model("meta-llama/Meta-Llama-3.1-405B")
    scenario = ServingScenario(model, layout, Precision("fp8", "fp8", "fp8"), 1024.0, 1024.0, batch)
    hops = next(one for one in estimate_serving(scenario, machine).decode if one.name == "pipeline hops")
    return hops.time_s / (layout.pp - 1)


def added_s(tokens_per_s: Num, base_tokens_per_s: Num) -> Num:
    """Time that a slower way of decoding adds to each token of one request.

    Examples
    --------
    >>> round(added_s(50.0, 100.0), 3)
    0.01
    """
    return 1 / tokens_per_s - 1 / base_tokens_per_s


def sparse_attention_gain(context_tokens: Num) -> Num:
    """Cache that a decoded token reads with dense over that with sparse attention: DeepSeek-V3 over DeepSeek-V3.2.

    Examples
    --------
    >>> sparse_attention_gain(np.array([2048.0, 131072.0])).round(1)
    array([0.8, 4.1])
    """
    return dense_cache_read_bytes(context_tokens) / sparse_cache_read_bytes(context_tokens)


def dense_cache_read_bytes(context_tokens: Num) -> Num:
    """Cache that a decoded token of DeepSeek-V3 reads, an entry for every token of its context [byte].

    Examples
    --------
    >>> f"{float(dense_cache_read_bytes(131072.0)):.3g}"
    '4.61e+09'
    """
    return _cache_read_bytes("deepseek-ai/DeepSeek-V3", context_tokens)


def sparse_cache_read_bytes(context_tokens: Num) -> Num:
    """Cache that a decoded token of DeepSeek-V3.2 reads: 2,048 entries, and every token's key of the indexer [byte].

    Examples
    --------
    >>> f"{float(sparse_cache_read_bytes(131072.0)):.3g}"
    '1.13e+09'
    """
    return _cache_read_bytes("deepseek-ai/DeepSeek-V3.2", context_tokens)


def _cache_read_bytes(model: str, context_tokens: Num) -> Num:
    read: Num = sum(
        count * mixer_of(mixer).kv_read_bytes(context_tokens, 1.0) for count, mixer in load_model(model).mixers
    )
    return read
