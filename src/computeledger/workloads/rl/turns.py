"""Rollouts with turns: what an episode observes, waits for and reads again between the tokens that it writes."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from computeledger.arrays import Num
from computeledger.bounds import AT_LEAST_ONE, FRACTION, Bound, check_record
from computeledger.workloads.rl.lengths import SCORES, SURVIVAL, Lengths

Array = NDArray[np.float64]

#: Variance of a whole number of calls about the mean that a length implies: its fraction is rounded by chance.
_ROUNDING = 1 / 6
#: Relative variance of how many caches are kept about their mean, even where all calls take the same (assumption).
_FLUCTUATION = 0.04
#: Calls that are as good as none.
_FEW = 1e-9


@dataclass(frozen=True, slots=True)
class Turns:
    """What happens between the tokens of an episode.

    An episode calls a tool in proportion to what it writes: turns are alike, longer episodes have more of them. The
    calls of an episode without turns are none, and nothing here counts.

    Attributes
    ----------
    calls_per_token : float or ndarray
        Calls of tools over tokens written [-].
    observed_tokens : float or ndarray
        Tokens that the answer to a call adds to the context [token].
    latency_s : float or ndarray
        From a call to its answer, on average [s].
    latency_deviation : float
        Standard deviation of it over its mean [-].
    environments : float or ndarray
        Episodes under way at once at most, on all replicas [-].
    failed_fraction : float or ndarray
        Attempts at an episode that fail, and are begun again: anywhere between beginning and end with equal chance, so
        that one costs half of its episode on average (assumption) [-].
    rereads : bool
        Whether caches are computed anew with new weights.
    takers : float or ndarray
        Agents of an episode that take turns: each waits while the others write theirs; 1 where none does [-].
    is_spread : bool
        Whether the longest waits count; where rollouts are broken off the mean ones do.
    """

    calls_per_token: Num = 0.0
    observed_tokens: Num = 0.0
    latency_s: Num = 0.0
    latency_deviation: float = 0.0
    environments: Num = np.inf
    failed_fraction: Num = 0.0
    rereads: bool = False
    takers: Num = 1.0
    is_spread: bool = True

    def __post_init__(self) -> None:
        check_record(
            self, takers=AT_LEAST_ONE, environments=Bound(AT_LEAST_ONE.least, is_endless=True), failed_fraction=FRACTION
        )

    @property
    def has_calls(self) -> bool:
        """Whether any episode calls a tool whose answer takes time or room."""
        return bool(np.any(self.calls_per_token * (self.latency_s + self.observed_tokens + self.takers - 1.0) > 0))

    @property
    def wait_s_per_token(self) -> Num:
        """Time that an episode waits for its tools, per token that it writes [s]."""
        return self.calls_per_token * self.latency_s

    def others_s(self, own_s: Num) -> Num:
        """Time that an episode waits per token for its tools and for other agents, whose turns take as long [s]."""
        return self.takers * (own_s + self.wait_s_per_token) - own_s

    @property
    def growth(self) -> Num:
        """Context over tokens written, the prompt apart [-]."""
        return 1.0 + self.calls_per_token * self.observed_tokens

    def reused_fraction(self, room: Num) -> Num:
        """Share of the answers that find their cache, where those kept the longest give way first.

        A cache is there if its call takes no longer than the others need to fill the room for caches that are kept,
        which is so many times the mean latency. Latencies are taken as gamma distributed, as :meth:`spread_s` does.
        """
        relative = self.latency_deviation**2 + _FLUCTUATION
        scores = 3 * (np.cbrt(np.maximum(room, 0.0)) - 1 + relative / 9) / np.sqrt(relative)
        found: Num = 1 - np.interp(scores, SCORES[1:-1, 0], SURVIVAL[1:-1])
        return found

    def spread_s(self, tokens: Num, scores: Num) -> Num:
        """How much longer than on average an episode waits, at a standard score [s].

        Sums of calls are taken as gamma distributed, their quantiles by Wilson and Hilferty.
        """
        if not self.is_spread:
            return 0.0 * tokens * scores
        calls = np.maximum(self.takers * self.calls_per_token * tokens, _FEW)
        relative = (self.latency_deviation**2 + np.minimum(1.0, _ROUNDING / calls)) / calls
        root = np.maximum(1 - relative / 9 + scores * np.sqrt(relative) / 3, 0.0)
        found: Num = np.maximum(self.latency_s * calls * (root**3 - 1), 0.0)
        return found


@dataclass(frozen=True, slots=True)
class Sampling:
    """What generators are asked for.

    Attributes
    ----------
    lengths : Lengths
        Of rollouts, prompts not counted [token].
    prompt_tokens : float or ndarray
        Of each rollout [token].
    group_size : float or ndarray
        Rollouts per prompt; with a shared prefix its prompt is read once per group [-].
    is_prefix_shared : bool
        Whether the engine keeps a group's prompt in its cache.
    turns : Turns
        What happens between the tokens of a rollout; nothing where none calls a tool.
    """

    lengths: Lengths
    prompt_tokens: Num
    group_size: Num = 1.0
    is_prefix_shared: bool = True
    turns: Turns = field(default_factory=Turns)

    def __post_init__(self) -> None:
        check_record(self, group_size=AT_LEAST_ONE)

    def context_tokens(self, written: Num) -> Num:
        """Prompt, tokens written and what was observed meanwhile.

        Parameters
        ----------
        written : float or ndarray
            Of a rollout [token].

        Returns
        -------
        float or ndarray
            In the cache [token].

        Examples
        --------
        >>> from computeledger.workloads.rl.lengths import exact_lengths
        >>> one = Sampling(exact_lengths(900.0), 100.0, turns=Turns(calls_per_token=0.01, observed_tokens=50.0))
        >>> one.context_tokens(900.0)
        1450.0
        """
        return self.prompt_tokens + written * self.turns.growth

    @property
    def longest_context_tokens(self) -> Num:
        """Context of the longest rollout [token]."""
        return self.context_tokens(self.lengths.longest_held_tokens)

    @property
    def mean_context_tokens(self) -> Num:
        """Context of a rollout under way, on average [token]."""
        return self.context_tokens(self.lengths.mean_held_tokens)
