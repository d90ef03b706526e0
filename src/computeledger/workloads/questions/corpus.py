"""What a question says of documents that users ask about: how long, how often asked, how a model would learn them."""

from __future__ import annotations

from dataclasses import dataclass

from computeledger.arrays import Uncertain
from computeledger.errors import InputError
from computeledger.fields import Asked, asked

#: What stands with documents only.
_OF_DOCUMENTS = ("corpus_questions", "corpus_passes", "corpus_refresh")


@dataclass(frozen=True, kw_only=True)
class AskingDocuments(Asked):
    """Documents that requests are about: read again, or trained on."""

    corpus: Uncertain | None = asked(
        "tokens", "Documents that requests are about: reading them with each request, from new or from a cache, "
        "against fine-tuning on them.", unit="tokens", is_open=True, metavar="D", blank="none",
    )  # fmt: skip
    corpus_questions: Uncertain | None = asked(
        "count", "Requests a day about these documents.", is_open=True, metavar="N", blank="1,000"
    )
    corpus_passes: Uncertain | None = asked(
        "count", "Tokens trained on for each token of the documents, paraphrases included.", is_open=True, most=1e5,
        metavar="N", blank="3..350",
    )  # fmt: skip
    corpus_refresh: Uncertain | None = asked(
        "s", "Time after which the documents have changed: trained on, or read into the cache, anew.", unit=None,
        is_open=True, metavar="TIME", blank="30 days",
    )  # fmt: skip

    def check(self) -> None:
        """Refuse what is said of documents that are not there."""
        super().check()
        named = next((name for name in _OF_DOCUMENTS if getattr(self, name) is not None), None)
        if self.corpus is None and named is not None:
            raise InputError(f"--{named.replace('_', '-')} is of documents: add --corpus, such as --corpus 500K")
