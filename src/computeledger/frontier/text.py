"""The stock of text: how much of it a run reads, how often, and what repetition is worth."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping

import numpy as np

from computeledger.arrays import Num
from computeledger.economics.scaling.laws import load_loss_law
from computeledger.facts.catalog import shipped_file
from computeledger.facts.reading import Document, read_facts, read_file
from computeledger.facts.schema import Fact


@functools.cache
def frontier_document() -> Document:
    """The facts of this layer as they are written.

    Examples
    --------
    >>> frontier_document().table["chips"]["H100"]
    'h100-sxm5-80gb'
    """
    return read_file(shipped_file("frontier", "frontier.toml"), shipped=True)


def text_facts() -> Mapping[str, Fact]:
    """The stock of text and the worth of its repetition.

    Examples
    --------
    >>> text_facts()["stock_tokens"].value
    300000000000000.0
    """
    document = frontier_document()
    return read_facts(document, "text", document.table["text"])


def epochs(tokens: Num, stock_tokens: Num) -> Num:
    """How often a run reads its text, ``D / U``; below 1 it does not need all of it.

    Examples
    --------
    >>> epochs(600e12, 300e12)
    2.0
    """
    return tokens / stock_tokens


def worth_tokens_muennighoff_2023(tokens: Num, stock_tokens: Num) -> Num:
    """Unique tokens that a run with repetition is worth, ``U + U R (1 - exp(-(D / U - 1) / R))``.

    References
    ----------
    datablations.

    Examples
    --------
    >>> round(float(worth_tokens_muennighoff_2023(4e12, 1e12)) / 4e12, 3)
    0.931
    """
    worth = text_facts()["worth_of_epochs_ratio"].value
    unique = np.minimum(tokens, stock_tokens)
    return unique + unique * worth * -np.expm1(-(tokens / unique - 1.0) / worth)


def absorbed_tokens_morris_2025(n_params_total: Num) -> Num:
    """Text that a model can hold by heart, ``3.6 N ln 2 / E``: its capacity over the information of a token.

    ``E`` is the irreducible loss of the law of Besiroglu et al., in nats per token: what no better model can guess.

    References
    ----------
    morris-2025; besiroglu-2024.

    Examples
    --------
    >>> round(float(absorbed_tokens_morris_2025(1e12)) / 1e12, 2)
    1.37
    """
    bits = text_facts()["capacity_bits_ratio"].value
    return n_params_total * bits * math.log(2.0) / load_loss_law("besiroglu_2024").E
