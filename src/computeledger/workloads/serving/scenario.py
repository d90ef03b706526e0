"""The question of serving in physics: a model on a layout under a load, and what drafts its tokens."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from computeledger.arrays import Num
from computeledger.bounds import AT_LEAST_ONE, POSITIVE, Bound, check_record
from computeledger.facts.architecture import Model
from computeledger.physics.parallelism import Layout
from computeledger.physics.roofline import Precision
from computeledger.physics.serving.drafting import Acceptance
from computeledger.physics.serving.grammars import Masks
from computeledger.physics.serving.offload import ON_CHIP, HostMemory
from computeledger.workloads.serving.settings import AS_FITTED, EngineSettings


@dataclass(frozen=True, slots=True)
class Speculation:
    """What drafts tokens.

    Attributes
    ----------
    method : str
        ``mtp``, ``eagle``, ``eagle3``, ``ngram`` or ``draft``; empty where only the user's figures are known.
    acceptance : Acceptance or None
        Chances of the drafts; None where only the user's tokens per step are known.
    is_open : bool
        Whether a search chooses how many tokens are drafted.
    """

    method: str = ""
    acceptance: Acceptance | None = None
    is_open: bool = False

    @property
    def is_own_layer(self) -> bool:
        """Whether a layer of the model drafts each token, and nothing beside it."""
        return self.method in ("", "mtp")


#: Share of the proposals of n-grams whose first token is accepted (vLLM pull request 24344: 0.81 at token 0). A search
#: that finds no match proposes nothing, so accepted over this is the share of steps with a proposal.
NGRAM_FIRST_FRACTION = 0.81

#: Drafts by layers like the model's own, as many as are stated.
OWN_LAYER = Speculation()


@dataclass(frozen=True, slots=True)
class ServingScenario:
    """A model on a layout under a load.

    Attributes
    ----------
    model : Model
        What is served.
    layout : Layout
        Of one replica.
    precision : Precision
        Of weights by kind and of the cache.
    input_tokens, output_tokens : float or ndarray
        Per request; the cached prefix is not counted in the input [token].
    batch : float or ndarray
        Sequences decoding per replica, all attention-DP ranks together [-].
    cached_tokens : float or ndarray
        Prefix found in the cache, per request [token].
    usd_per_gpu_hour : float or ndarray
        Price of a GPU-hour [USD/h].
    draft_tokens, tokens_per_step : float or ndarray
        Speculative decoding: tokens drafted per step; tokens that a step yields on average, its own included [token].
    speculation : Speculation
        What drafts, how surely, and whether a search chooses how many tokens.
    rounds : float or ndarray
        Requests of each client, all of which start at once; infinite in steady state [-].
    waiting : float or ndarray
        Requests in flight beyond the batch, which wait for room in the cache [-].
    ranks_balanced : bool
        Whether the scheduler holds prompts back until every attention-DP rank has one.
    two_batches : bool
        Whether one half of a pass computes while the other's tokens travel to their experts.
    statistic : str
        Of the times to first token of a run's requests: ``mean``, ``median``, ``p90`` or ``last``.
    host : HostMemory
        Weights and cache that stay in the host's memory.
    settings : EngineSettings
        What the engine was told when it started.
    occupancy : float or ndarray
        Share of the paid time in which a replica has requests [-].
    masks : Masks or None
        What structured output takes; None where no request's output is.
    images_per_token : float or ndarray
        Images that the encoder reads for each new input token; the input holds their tokens too [1/token].
    """

    model: Model
    layout: Layout
    precision: Precision
    input_tokens: Num
    output_tokens: Num
    batch: Num
    cached_tokens: Num = 0.0
    usd_per_gpu_hour: Num = 0.0
    draft_tokens: Num = 0.0
    tokens_per_step: Num = 1.0
    rounds: Num = np.inf
    waiting: Num = 0.0
    ranks_balanced: bool = False
    two_batches: bool = False
    statistic: str = "mean"
    host: HostMemory = ON_CHIP
    settings: EngineSettings = AS_FITTED
    occupancy: Num = 1.0
    speculation: Speculation = OWN_LAYER
    images_per_token: Num = 0.0
    masks: Masks | None = None

    def __post_init__(self) -> None:
        check_record(
            self, output_tokens=POSITIVE, batch=POSITIVE, tokens_per_step=AT_LEAST_ONE,
            rounds=Bound(1.0, is_endless=True),
        )  # fmt: skip

    @property
    def held_tokens(self) -> Num:
        """Tokens in a sequence's cache at its end [token]."""
        return self.cached_tokens + self.input_tokens + self.output_tokens

    @property
    def verified_tokens(self) -> Num:
        """Tokens of a sequence that a step passes through the model: its own, and the proposed drafts [token]."""
        chances = self.speculation.acceptance
        if self.speculation.method != "ngram" or chances is None:
            return 1.0 + self.draft_tokens
        return 1.0 + self.draft_tokens * np.minimum(chances.first / NGRAM_FIRST_FRACTION, 1.0)

    @property
    def step_ratio_of_drafts(self) -> Num:
        """A step with its drafts over one without, where the model's own layers draft: a layer for each [-]."""
        return 1 + self.draft_tokens * self.speculation.is_own_layer / self.model.n_layers

    def drafting(self, drafts: Num) -> ServingScenario:
        """The same with so many tokens drafted per step, as far as chances of acceptance are known.

        Parameters
        ----------
        drafts : float or ndarray
            How many are drafted per step [-].

        Returns
        -------
        ServingScenario
            With the tokens that a step yields.

        Examples
        --------
        >>> from computeledger.facts.load import load_model
        >>> made_of = load_model("llama-3.1-8b"), Layout(), Precision(), 9.0, 9.0, 1.0
        >>> one = ServingScenario(*made_of, speculation=Speculation("ngram", Acceptance(0.5)))
        >>> float(one.drafting(2.0).tokens_per_step)
        1.75
        """
        if self.speculation.acceptance is None:
            return self
        tokens = self.speculation.acceptance.tokens_of_step(drafts)
        closed = replace(self.speculation, is_open=False)
        return replace(self, draft_tokens=drafts, tokens_per_step=tokens, speculation=closed)
