"""The question of ``computeledger claims``: whether the source documents' own figures hold."""

from __future__ import annotations

from dataclasses import dataclass

from computeledger.fields import Asked, asked


@dataclass(frozen=True, kw_only=True)
class ClaimsQuestion(Asked):
    """Quantitative claims of the source documents, recomputed."""

    ids: tuple[str, ...] = asked(
        "texts", "Claims, such as C030.", (), aliases=("id",), label="One claim", group="Which", blank="all"
    )
    words: str | None = asked(
        "text", "Only claims that have these words.", metavar="WORDS", label="Search the claims", group="Which",
        blank="all",
    )  # fmt: skip
    verdict: str | None = asked(
        "text", "Only claims with this verdict.",
        choices=("holds", "holds_if", "fails", "derived", "input", "not_checkable"),
        metavar="V", label="Verdict", group="Which", blank="all",
    )  # fmt: skip
    conclusion: str | None = asked(
        "text", "Only claims whose document's conclusion stands, falls, does not follow or is not judged.",
        choices=("stands", "falls", "does_not_follow", "not_judged"),
        metavar="V", label="Conclusion", group="Which", blank="all",
    )  # fmt: skip
