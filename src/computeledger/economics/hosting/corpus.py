"""Documents that users ask about: reading them with each request, keeping them in a cache, or training on them."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from computeledger.arrays import Num, Range, Uncertain
from computeledger.economics.hosting.kv_tiers import TierMarket, estimate_kv_tiers, hit_usd
from computeledger.errors import QuantityError
from computeledger.facts.architecture import Lora
from computeledger.facts.catalog import shipped_file
from computeledger.facts.reading import read_facts, read_file
from computeledger.facts.schema import Fact
from computeledger.physics.adapters import adapter_params
from computeledger.physics.blackboard.ledgers import FORWARD_FLOP_PER_PARAM, TRAINING_FLOP_PER_PARAM
from computeledger.physics.roofline import Machine
from computeledger.physics.transformer import n_params_active
from computeledger.units import DAY_S, HOUR_S
from computeledger.workloads.serving.estimate import ServingScenario, estimate_serving, largest_batch

#: Rank of the adapters that a LoRA run trains on all linear layers (assumption).
LORA_RANK = 16
#: Share of the dense bf16 peak that fine-tuning reaches: a small job on few GPUs, up to a pretraining's (assumption).
FINETUNING_UTILIZATION = Range(0.2, 0.4, bounded=True)
#: Passes over a text as fine-tuning makes them, the least that is assumed to teach a model anything of it.
_FEWEST_PASSES = 3.0
READ, CACHED, TUNED, LORA = "read", "cached", "tuned", "lora"


@functools.cache
def learned_corpus() -> Mapping[str, Fact]:
    """Tokens of a corpus, and tokens that a model was trained on until it answered questions about it without it.

    Returns
    -------
    mapping of str to Fact
        ``n_corpus_tokens`` and ``n_trained_tokens`` [token].

    Examples
    --------
    >>> facts = learned_corpus()
    >>> facts["n_trained_tokens"].value / facts["n_corpus_tokens"].value
    350.0
    """
    document = read_file(shipped_file("usage.toml"), shipped=True)
    return read_facts(document, "learned-corpus", dict(document.table["learned-corpus"]))


def corpus_inputs() -> dict[str, tuple[Uncertain, str]]:
    """What is assumed of documents where nothing is said.

    Returns
    -------
    dict of str to tuple
        By option: its value or range, and the assumption in words.

    Examples
    --------
    >>> corpus_inputs()["corpus_questions"]
    (1000.0, '1,000 requests a day')
    """
    facts = learned_corpus()
    most = facts["n_trained_tokens"].value / facts["n_corpus_tokens"].value
    one = facts["n_trained_tokens"]
    passes = (
        f"3 to {most:g} tokens trained on for each of theirs, from plain passes to what taught Llama 3 8B "
        f"({one.source}, {one.locator})"
    )
    return {
        "corpus_questions": (1000.0, "1,000 requests a day"),
        "corpus_passes": (Range(_FEWEST_PASSES, most), passes),
        "corpus_refresh": (30 * DAY_S, "documents change every 30 days"),
        "finetuning_utilization": (FINETUNING_UTILIZATION, "fine-tuning at 20 to 40 % of the dense bf16 peak"),
    }


@dataclass(frozen=True, slots=True)
class Corpus:
    """Documents and how they are asked about.

    Attributes
    ----------
    tokens : float or ndarray
        Of all of them [token].
    questions_per_day : float or ndarray
        Requests about them [1/day].
    passes : float or ndarray
        Tokens trained on for each of theirs [-].
    refresh_s : float or ndarray
        Until they have changed [s].
    utilization : float or ndarray
        Of fine-tuning, FLOP over dense bf16 peak [-].
    """

    tokens: Num
    questions_per_day: Num
    passes: Num
    refresh_s: Num
    utilization: Num


@dataclass(frozen=True, slots=True)
class Way:
    """One way to answer questions about documents.

    Attributes
    ----------
    name : str
        ``read``, ``cached``, ``tuned`` or ``lora``.
    gpu_s_per_request, usd_per_request : float or ndarray
        Of a request, once all is ready [s], [USD].
    change_gpu_s, change_usd : float or ndarray
        Spent each time the documents change [s], [USD].
    batch : float or ndarray
        Sequences that decode at once; fewer where each holds the documents [-].
    place : str
        Where the cache is held most cheaply, by most of the samples.
    """

    name: str
    gpu_s_per_request: Num
    usd_per_request: Num
    change_gpu_s: Num
    change_usd: Num
    batch: Num
    place: str = ""

    def usd_per_day(self, corpus: Corpus) -> Num:
        """All of it, a day.

        Parameters
        ----------
        corpus : Corpus
            The documents.

        Returns
        -------
        float or ndarray
            Requests and changes [USD].
        """
        return self.usd_per_request * corpus.questions_per_day + self.change_usd / (corpus.refresh_s / DAY_S)

    def gpu_hours_per_day(self, corpus: Corpus) -> Num:
        """All of its GPU-time, a day.

        Parameters
        ----------
        corpus : Corpus
            The documents.

        Returns
        -------
        float or ndarray
            Requests and changes [h].
        """
        changed_s = self.change_gpu_s / (corpus.refresh_s / DAY_S)
        return (self.gpu_s_per_request * corpus.questions_per_day + changed_s) / HOUR_S

    def pays_from(self, other: Way, corpus: Corpus) -> Num:
        """Requests a day from which it costs less than another way.

        Parameters
        ----------
        other : Way
            What it is compared with.
        corpus : Corpus
            The documents.

        Returns
        -------
        float or ndarray
            Infinite where it never does [1/day].
        """
        saved = np.asarray(other.usd_per_request - self.usd_per_request)
        more = np.asarray(self.change_usd - other.change_usd) / (np.asarray(corpus.refresh_s) / DAY_S)
        return np.where(saved > 0, np.maximum(more, 0.0) / np.where(saved > 0, saved, 1.0), np.inf)


def compare_corpus_ways(
    scenario: ServingScenario, machine: Machine, corpus: Corpus, draws: Mapping[str, Num], market: TierMarket
) -> tuple[Way, ...]:
    """Cost of answering questions about documents by reading, by a cache and by training.

    A request that reads has the documents as new input, one from the cache as a cached prefix, for which the cheapest
    tier of memory holds it between two requests (or computes it again, where that is cheaper). Training takes
    ``6 N D P`` FLOP for all weights and ``(4 N + 6 A) D P`` for adapters of ``A`` parameters, each time the documents
    change, and what the model takes to write the paraphrases beyond three passes; a request is then the one of the
    scenario.

    Parameters
    ----------
    scenario : ServingScenario
        A request without the documents, its layout, batch and price.
    machine : Machine
        One GPU and what it reaches.
    corpus : Corpus
        The documents.
    draws : mapping of str to float or ndarray
        Samples of the memory's prices.
    market : TierMarket
        Facts of the memory.

    Returns
    -------
    tuple of Way
        Reading and the cache only where one sequence with the documents fits.

    Raises
    ------
    QuantityError
        Where the GPU-hour has no price.

    Examples
    --------
    >>> plain = Way("read", 2.0, 0.01, 0.0, 0.0, 8.0)
    >>> tuned = Way("tuned", 1.0, 0.005, 3600.0, 3.0, 8.0)
    >>> float(tuned.pays_from(plain, Corpus(1e5, 1e3, 3.0, 30 * DAY_S, 0.3)))
    20.0
    """
    if np.any(np.asarray(scenario.usd_per_gpu_hour) <= 0):
        raise QuantityError("usd_per_gpu_hour = 0: ways are compared by their cost, the price must be positive")
    plain_s = _gpu_s(scenario, machine)
    model, price = scenario.model, scenario.usd_per_gpu_hour / HOUR_S
    peak = machine.bf16_flop_per_s
    n = n_params_active(model)
    adapted = (TRAINING_FLOP_PER_PARAM - FORWARD_FLOP_PER_PARAM) * n
    adapted += TRAINING_FLOP_PER_PARAM * adapter_params(model, Lora(LORA_RANK))
    # beyond plain passes a text is paraphrased: written by the model at what its output costs
    written_s = plain_s / scenario.output_tokens * corpus.tokens * np.maximum(corpus.passes - _FEWEST_PASSES, 0.0)
    out = []
    for name, flop_per_token in ((TUNED, TRAINING_FLOP_PER_PARAM * n), (LORA, adapted)):
        trained_s = written_s + flop_per_token * corpus.tokens * corpus.passes / (corpus.utilization * peak)
        out.append(Way(name, plain_s, plain_s * price, trained_s, trained_s * price, scenario.batch))
    read = replace(scenario, input_tokens=scenario.input_tokens + corpus.tokens)
    room = np.floor(largest_batch(read, machine))
    if np.any(room < 1):
        return tuple(out)
    read = replace(read, batch=np.minimum(scenario.batch, room))
    again_s = _gpu_s(read, machine)
    first = Way(READ, again_s, again_s * price, 0.0, 0.0, read.batch)
    return (first, _from_cache(read, machine, corpus, draws, market), *out)


def _from_cache(
    read: ServingScenario, machine: Machine, corpus: Corpus, draws: Mapping[str, Num], market: TierMarket
) -> Way:
    """The documents as a prefix that waits in the cheapest memory between two requests."""
    kept = replace(
        read, input_tokens=read.input_tokens - corpus.tokens, cached_tokens=read.cached_tokens + corpus.tokens
    )
    tiers = estimate_kv_tiers(replace(kept, cached_tokens=corpus.tokens), machine, draws, market)
    every_s = DAY_S / np.asarray(corpus.questions_per_day, float)
    costs = {
        one.id: np.where(one.n_prefixes >= 1, one.load_usd + hit_usd(one.holding, tiers.prefix_bytes, every_s), np.inf)
        for one in tiers.tiers
    }
    costs["recompute"] = np.asarray(tiers.recompute_usd)
    names, table = list(costs), np.stack(np.broadcast_arrays(*costs.values()))
    places = np.bincount(np.argmin(table, axis=0).ravel(), minlength=len(names))
    taken_s, price = _gpu_s(kept, machine), read.usd_per_gpu_hour / HOUR_S
    filled_usd: Num = tiers.recompute_usd
    usd = taken_s * price + table.min(axis=0)
    place = names[int(np.argmax(places))]
    return Way(CACHED, taken_s, usd, filled_usd / price, filled_usd, kept.batch, place)


def _gpu_s(scenario: ServingScenario, machine: Machine) -> Num:
    """GPU-time of a request."""
    found = estimate_serving(scenario, machine)
    return scenario.layout.n_gpus / found.requests_per_s
