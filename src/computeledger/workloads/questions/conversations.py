"""What a question says of conversations and agents: turns, pauses between them, and where idle caches stay."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from computeledger.bounds import AT_LEAST_ONE, check_record
from computeledger.distributions import Spread, low_of, read_spread
from computeledger.errors import InputError, shown
from computeledger.fields import Asked, asked, shared
from computeledger.physics.calibration.efficiency import median_of
from computeledger.units import EXA
from computeledger.workloads.questions.rl import RLQuestion

if TYPE_CHECKING:
    from computeledger.arrays import Uncertain

#: Shared prompts that a question may have, and bytes that a tier may hold.
MOST_PREFIXES, MOST_TIER_BYTES = 100_000, EXA
#: Turns that one conversation in 10,000 may have (assumption: more are a program's, and its context is full before).
MOST_TURNS, _LAST_SCORE = 10_000, 3.72
#: What is the same in every case, and 0.
NO_SPREAD = Spread(0.0)
_OF_TURNS = ("tool_latency", "observation_tokens", "shared_tokens", "host_cache", "ssd_cache", "pool_cache")


@dataclass(frozen=True, slots=True)
class Conversation:
    """How requests hang together.

    Attributes
    ----------
    turns : Spread
        Of a conversation [-].
    delay_s : Spread
        From the end of a turn to the next one's arrival: a person who reads and thinks, a tool that answers [s].
    observed_tokens : Spread
        What a later turn adds to all that was read and written before [token].
    shared_tokens : int
        Head of the first prompt that conversations share: system prompt, tools, examples [token].
    n_prefixes : int
        Shared heads that there are, all used equally often [-].
    """

    turns: Spread
    delay_s: Spread = NO_SPREAD
    observed_tokens: Spread = NO_SPREAD
    shared_tokens: int = 0
    n_prefixes: int = 1

    def __post_init__(self) -> None:
        check_record(self, n_prefixes=AT_LEAST_ONE)


@dataclass(frozen=True, kw_only=True)
class Conversing(Asked):
    """A load whose requests may be turns of conversations."""

    turns: str | None = shared(
        RLQuestion, "turns", label="Turns", group="Conversations",
        help="Turns of a conversation, each a request: on average, or lognormal:P50:P95, uniform:LOW:HIGH, "
        "exponential:MEAN. A turn's prompt is all that came before; --input-tokens are then the first prompt's.",
    )  # fmt: skip
    tool_latency: str | None = shared(
        RLQuestion, "tool_latency", label="Pause between turns", group="Conversations",
        help="From the end of a turn to the next one: a tool that answers or a person who thinks; a mean, about which "
        "pauses are exponential, or a distribution, such as lognormal:2s:20s.",
    )  # fmt: skip
    observation_tokens: Uncertain = shared(
        RLQuestion, "observation_tokens", help="Tokens that the person or the tool adds with each later turn.",
        label="Added a turn", group="Conversations",
    )  # fmt: skip
    shared_tokens: int = asked(
        "whole", "Head of the first prompt that conversations share: system prompt, tools, examples.", 0, least=0,
        metavar="L", label="Shared prompt", group="Conversations",
    )  # fmt: skip
    shared_prompts: int = asked(
        "whole", "Different ones of those heads, all used equally often.", 1, least=1, most=MOST_PREFIXES, metavar="N",
        label="Shared prompts", group="Conversations",
    )  # fmt: skip
    host_cache: float | None = asked(
        "bytes", "Host memory that keeps idle caches, per replica.", unit="GB", is_open=True, is_single=True,
        most=MOST_TIER_BYTES, metavar="B", label="Cache in host memory", group="Conversations", blank="none",
    )  # fmt: skip
    ssd_cache: float | None = asked(
        "bytes", "Flash that keeps idle caches, per replica.", unit="GB", is_open=True, is_single=True,
        most=MOST_TIER_BYTES, metavar="B", label="Cache on flash", group="Conversations", blank="none",
    )  # fmt: skip
    pool_cache: float | None = asked(
        "bytes", "A pool of memory that keeps idle caches of all replicas, reached through their NICs.", unit="GB",
        is_open=True, is_single=True, most=MOST_TIER_BYTES, metavar="B", label="Shared pool of caches",
        group="Conversations", blank="none",
    )  # fmt: skip

    def conversation(self) -> Conversation | None:
        """How requests hang together; none where each is on its own."""
        if self.turns is None:
            return None
        turns = _spread(self.turns, "--turns", "count")
        delay = NO_SPREAD if self.tool_latency is None else _pause(_spread(self.tool_latency, "--tool-latency", "s"))
        observed = Spread(median_of(self.observation_tokens))
        return Conversation(turns, delay, observed, self.shared_tokens, self.shared_prompts)

    def check(self) -> None:
        """Refuse what only conversations have, without any."""
        super().check()
        one = self.conversation()
        if one is None:
            name = next((name for name in _OF_TURNS if getattr(self, name)), None)
            if name is not None and not (name.endswith("_cache") and self._replays):
                raise InputError(f"--{name.replace('_', '-')}: of how many turns? add --turns, such as --turns 10")
            return
        given = read_spread(str(self.turns), "--turns", "count")
        if min((low_of(given.mean), *given.ends)) < 1:
            raise InputError(f"--turns {shown(str(self.turns))}: must be at least 1")
        most = one.turns.at_score(_LAST_SCORE)
        if most > MOST_TURNS:
            raise InputError(
                f"--turns {shown(str(self.turns))}: one conversation in 10,000 has {most:,.0f} turns; at most "
                f"{MOST_TURNS:,}"
            )
        if low_of(one.delay_s.mean) < 0:
            raise InputError(f"--tool-latency {shown(str(self.tool_latency))}: must be at least 0s")

    @property
    def _replays(self) -> bool:
        """Whether a trace with prefixes may be replayed, whose caches tiers keep too."""
        return getattr(self, "workload", None) is not None


def on_their_own() -> dict[str, Any]:
    """Fields of a question whose requests are no turns.

    Examples
    --------
    >>> on_their_own()["turns"] is None
    True
    """
    return {one.name: one.default for one in fields(Conversing)}


def _pause(stated: Spread) -> Spread:
    """Pauses about a mean that is stated alone: as people's and tools' times are taken to be where nothing else is
    known, exponential (assumption); exactly equal ones keep conversations of a replica in step, which no traffic is.
    """
    mean = median_of(stated.mean)
    return stated if stated.form or mean <= 0 else Spread(mean, "exponential", (mean,))


def _spread(text: str, option: str, dimension: str) -> Spread:
    """A distribution whose mean is one number: an uncertain one is taken at its median."""
    found = read_spread(text, option, dimension)
    return found if found.form else Spread(median_of(found.mean))
