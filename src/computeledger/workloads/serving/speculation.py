"""Speculation planned: from a question to what drafts and how surely, and the best length of the draft by load."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from computeledger.arrays import Num, Uncertain
from computeledger.errors import InputError
from computeledger.facts.architecture import Model
from computeledger.facts.load import load_model
from computeledger.facts.speculation import draft_vocabulary
from computeledger.physics.calibration.efficiency import median_of
from computeledger.physics.roofline import Machine
from computeledger.physics.serving.acceptance import PublishedAcceptance, published_acceptance
from computeledger.physics.serving.drafting import MOST_DRAFTS, Acceptance, acceptance_of, drafting_head
from computeledger.workloads.questions.serve import ServeQuestion
from computeledger.workloads.questions.speculation import method_of
from computeledger.workloads.serving.estimate import estimate_serving, largest_batch
from computeledger.workloads.serving.scenario import OWN_LAYER, ServingScenario, Speculation

#: Name of the chance of a first draft among the samples of a question.
FIRST = "acceptance"


@dataclass(frozen=True, slots=True)
class PlannedSpeculation:
    """What a question has drafted.

    Attributes
    ----------
    method : str
        ``mtp``, ``eagle``, ``eagle3``, ``ngram`` or ``draft``.
    drafter : Model or None
        What runs beside the model.
    known : PublishedAcceptance
        What is published of the method.
    stated : Acceptance or None
        Chances that the user's tokens per step imply.
    """

    method: str
    drafter: Model | None
    known: PublishedAcceptance
    stated: Acceptance | None

    @property
    def first(self) -> Uncertain:
        """Chance of a first draft: the user's, else the interval of what is published [-]."""
        return self.known.first if self.stated is None else float(self.stated.first)


def planned_speculation(question: ServeQuestion, model: Model) -> PlannedSpeculation | None:
    """What drafts, and how surely; none where no method is named.

    Examples
    --------
    >>> asked = ServeQuestion(model="deepseek-v3", system="h200-nvl8", speculation="auto")
    >>> planned_speculation(asked, load_model(asked.model)).method
    'mtp'
    """
    method, name = method_of(question.speculation)
    if method == "none":
        return None
    if method == "auto":
        method = "mtp" if model.n_mtp_layers else "eagle3"
    if method == "mtp" and not model.n_mtp_layers:
        raise InputError(f"--speculation mtp: {model.id} has no module for next tokens; eagle3, ngram or draft:MODEL")
    drafter = None
    if method in ("eagle", "eagle3"):
        drafter = drafting_head(model, draft_vocabulary() if method == "eagle3" else None)
    elif name is not None:
        drafter = load_model(name)
        if drafter.vocab_size != model.vocab_size:
            raise InputError(
                f"--speculation draft:{name}: {drafter.vocab_size:,} tokens in its vocabulary, {model.id} has "
                f"{model.vocab_size:,}: engines draft with the same vocabulary"
            )
    known, stated = published_acceptance(method, model.id), None
    if question.draft_tokens and question.tokens_per_step is not None:
        stated = acceptance_of(question.tokens_per_step, question.draft_tokens, known.ratio)
    return PlannedSpeculation(method, drafter, known, stated)


def chances_asked(question: ServeQuestion, model: Model) -> dict[str, Uncertain]:
    """The chance of a first draft, to be sampled with a question's other quantities.

    Examples
    --------
    >>> chances_asked(ServeQuestion(model="qwen3-8b", system="h100-nvl8"), load_model("qwen3-8b"))
    {}
    """
    plan = planned_speculation(question, model)
    return {} if plan is None else {FIRST: plan.first}


def speculated(question: ServeQuestion, model: Model, numbers: Mapping[str, Num]) -> dict[str, Any]:
    """Fields of a scenario that say what is drafted; ``numbers`` may hold samples of the chance of a first draft.

    Examples
    --------
    >>> asked = ServeQuestion(model="qwen3-8b", system="h100-nvl8", speculation="eagle3", draft_tokens=3.0)
    >>> found = speculated(asked, load_model("qwen3-8b"), {})
    >>> 2.0 < float(found["tokens_per_step"]) < 3.0, found["speculation"].is_open
    (True, False)
    """
    plan, stated = planned_speculation(question, model), question.tokens_per_step is not None
    if plan is None:
        own = {"draft_tokens": question.draft_tokens, "tokens_per_step": question.yielded_tokens}
        return {"model": model, "speculation": OWN_LAYER, **own}
    first = numbers[FIRST] if FIRST in numbers else median_of(plan.first)
    chances = Acceptance(first, plan.known.ratio)
    drafts, tokens = question.draft_tokens, question.yielded_tokens
    return {
        "model": replace(model, drafter=plan.drafter),
        "speculation": Speculation(plan.method, chances, is_open=not drafts),
        "draft_tokens": drafts,
        "tokens_per_step": tokens if stated or not drafts else chances.tokens_of_step(drafts),
    }


def undrafted(scenario: ServingScenario) -> ServingScenario:
    """The same without speculation: one token a step, and nothing beside the model.

    Examples
    --------
    >>> from computeledger.physics.parallelism import Layout
    >>> from computeledger.physics.roofline import Precision
    >>> one = ServingScenario(load_model("llama-3.1-8b"), Layout(), Precision(), 9.0, 9.0, 1.0, draft_tokens=2.0)
    >>> undrafted(one).draft_tokens
    0.0
    """
    model = replace(scenario.model, drafter=None)
    return replace(scenario, model=model, draft_tokens=0.0, tokens_per_step=1.0, speculation=OWN_LAYER)


@dataclass(frozen=True, slots=True)
class DraftsByLoad:
    """The best length of the draft by batch, on one layout.

    Attributes
    ----------
    batches : ndarray
        Sequences decoding per replica [-].
    draft_tokens : ndarray
        Length at which a token takes least [token].
    speedup_ratio : ndarray
        Time per token without speculation over that with it [-].
    requests_per_s : ndarray
        What a replica finishes at the batch [1/s].
    """

    batches: NDArray[np.float64]
    draft_tokens: NDArray[np.float64]
    speedup_ratio: NDArray[np.float64]
    requests_per_s: NDArray[np.float64]

    @property
    def stops_paying(self) -> int | None:
        """Place of the first batch from which on no draft pays; None where one does at the largest that fits."""
        (paying,) = np.nonzero(self.draft_tokens > 0)
        after = int(paying[-1]) + 1 if len(paying) else 0
        return after if after < len(self.batches) else None


def drafts_by_load(scenario: ServingScenario, machine: Machine, batches: NDArray[np.float64]) -> DraftsByLoad:
    """Price every length of the draft at every batch, in one call, and keep the best of each batch.

    Examples
    --------
    >>> from computeledger.facts.load import load_system
    >>> from computeledger.physics.calibration.efficiency import efficiency
    >>> from computeledger.physics.parallelism import Layout
    >>> from computeledger.physics.roofline import Precision
    >>> made_of = load_model("llama-3.1-8b"), Layout(), Precision(), 512.0, 512.0, 1.0
    >>> one = ServingScenario(*made_of, speculation=Speculation("ngram", Acceptance(0.3)))
    >>> found = drafts_by_load(one, Machine(load_system("h100-nvl8"), efficiency("vllm")), np.array([1.0, 512.0]))
    >>> bool(found.draft_tokens[0] > found.draft_tokens[1]), bool(found.speedup_ratio[0] > 1.2)
    (True, True)
    """
    drafts = np.arange(MOST_DRAFTS + 1.0)[:, None]
    tried = estimate_serving(replace(scenario.drafting(drafts), batch=batches), machine)
    tpot_s = np.broadcast_to(np.asarray(tried.tpot_s), (len(drafts), len(batches)))
    best = np.argmin(tpot_s, axis=0)
    at = np.arange(len(batches))
    rates = np.broadcast_to(np.asarray(tried.requests_per_s), tpot_s.shape)
    plain = estimate_serving(replace(undrafted(scenario), batch=batches), machine).tpot_s
    return DraftsByLoad(batches, drafts[best, 0], np.asarray(plain) / tpot_s[best, at], rates[best, at])


def batches_that_fit(scenario: ServingScenario, machine: Machine) -> NDArray[np.float64]:
    """Powers of two up to the largest batch that fits, and that one.

    Examples
    --------
    >>> from computeledger.facts.load import load_system
    >>> from computeledger.physics.parallelism import Layout
    >>> from computeledger.physics.roofline import Precision
    >>> one = ServingScenario(load_model("llama-3.1-8b"), Layout(), Precision(), 8192.0, 512.0, 1.0)
    >>> batches_that_fit(one, Machine(load_system("h100-nvl8")))[:3].tolist()
    [1.0, 2.0, 4.0]
    """
    most = float(np.minimum(np.min(largest_batch(scenario, machine)), scenario.settings.max_batch))
    most = min(max(most, 1.0), _MOST_BATCH)
    return np.unique(np.append(2.0 ** np.arange(np.floor(np.log2(most)) + 1), most))


#: Largest batch that is looked at.
_MOST_BATCH = 4096.0


def best_drafts(scenario: ServingScenario, machine: Machine, batch: Num) -> float:
    """Length of the draft at which a token takes least on a layout at a batch.

    Examples
    --------
    >>> from computeledger.facts.load import load_system
    >>> from computeledger.physics.parallelism import Layout
    >>> from computeledger.physics.roofline import Precision
    >>> made_of = load_model("llama-3.1-8b"), Layout(), Precision(), 512.0, 512.0, 1.0
    >>> one = ServingScenario(*made_of, speculation=Speculation("ngram", Acceptance(0.9)))
    >>> best_drafts(one, Machine(load_system("h100-nvl8")), 1.0)
    8.0
    """
    return float(drafts_by_load(scenario, machine, np.array([float(np.asarray(batch))])).draft_tokens[0])
