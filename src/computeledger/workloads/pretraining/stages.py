"""Parts of a run that differ from the rest: a smaller batch at the start, longer sequences at the end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from computeledger.errors import InputError, shown
from computeledger.physics.critical_batch import BatchPhase
from computeledger.units import format_si
from computeledger.workloads.anchor import SEPARATOR, AnchorKey, parse_anchor

#: What a stage may say: which tokens it has, and what it changes, by the question's field.
KEYS = {
    "from": AnchorKey("tokens", "tokens"), "until": AnchorKey("tokens", "tokens"),
    "global_batch": AnchorKey("tokens", "tokens"), "sequence": AnchorKey("tokens", "tokens"),
    "layout": AnchorKey(), "microbatch": AnchorKey("count"), "recompute": AnchorKey(),
}  # fmt: skip
_FIELDS = {
    "global_batch": "global_batch_tokens", "sequence": "sequence_tokens", "layout": "layout",
    "microbatch": "microbatch_sequences", "recompute": "recompute",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Stage:
    """A part of a run.

    Attributes
    ----------
    text : str
        As it was given; empty for the rest of the run.
    start_tokens, end_tokens : float
        Tokens seen when it begins and ends [token].
    changes : mapping of str to float or str
        Fields of the question that differ.
    """

    text: str
    start_tokens: float
    end_tokens: float
    changes: Mapping[str, float | str]

    @property
    def tokens(self) -> float:
        """Tokens of the part [token]."""
        return self.end_tokens - self.start_tokens

    def phase(self, batch_tokens: float) -> BatchPhase:
        """The same as the critical batch sees it."""
        return BatchPhase(batch_tokens, self.start_tokens, self.end_tokens)


def read_stages(texts: Sequence[str], run_tokens: float) -> list[Stage]:
    """Read the parts of a run in order, with the rest of the run between them.

    Without ``from`` a stage begins where the one before it ended, without ``until`` it lasts to the end.

    Examples
    --------
    >>> found = read_stages(["until=1T,global_batch=4M", "from=14T,sequence=128K"], 15e12)
    >>> [(one.text, one.tokens / 1e12) for one in found]
    [('until=1T,global_batch=4M', 1.0), ('', 13.0), ('from=14T,sequence=128K', 1.0)]
    """
    out: list[Stage] = []
    at = 0.0
    for text in [one.strip() for given in texts for one in given.split(SEPARATOR)]:
        said = parse_anchor(text, KEYS, "stage")
        start, end = (float(said.get(key, other)) for key, other in (("from", at), ("until", run_tokens)))
        if not at <= start < end <= run_tokens:
            raise InputError(
                f"stage {shown(text)}: {format_si(start)} to {format_si(end)} tokens; it must begin at "
                f"{format_si(at)} or later, and end by {format_si(run_tokens)}"
            )
        changes = {_FIELDS[key]: value for key, value in said.items() if key in _FIELDS}
        if not changes:
            raise InputError(f"stage {shown(text)}: changes nothing; give one of {', '.join(_FIELDS)}")
        if start > at:
            out.append(Stage("", at, start, {}))
        out.append(Stage(text, start, end, changes))
        at = end
    return [*out, Stage("", at, run_tokens, {})] if at < run_tokens else out
