"""What the tokens of a run are worth: less where the batch is large, data repeat, or sites exchange seldom."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from computeledger.arrays import Z_95, Num
from computeledger.economics.scaling.laws import LossLaw, pretraining_loss, read_law, worth_of_tokens
from computeledger.physics.critical_batch import BatchPhase, critical_batch_facts, exponent_beyond, worth_of_batches

#: Scores of the growth of the critical batch beyond what was measured: one for each of 91 equal shares of its interval.
_SCORES = np.linspace(-Z_95, Z_95, 91)


@dataclass(frozen=True, slots=True)
class Price:
    """One reason why tokens are worth less, with everything before it.

    Attributes
    ----------
    name : str
        What it is.
    worth_fraction : float or ndarray
        Tokens over those that this reason makes of them [-].
    loss : float or ndarray
        Added to the loss, in nats per token [-].
    why : str
        How it is known.
    source : str
        Key.
    """

    name: str
    worth_fraction: Num
    loss: Num
    why: str
    source: str


def price_of_batch(law: LossLaw, phases: Sequence[BatchPhase], n_params: float) -> Price:
    """What a batch that is not small costs, over its stages.

    Parameters
    ----------
    law : LossLaw
        Of the loss.
    phases : sequence of BatchPhase
        Of the run.
    n_params : float
        Multiplied by each token [-].

    Returns
    -------
    Price
        Over the interval of the growth of the critical batch.

    Examples
    --------
    >>> from computeledger.economics.scaling.laws import load_loss_law
    >>> small, large = (price_of_batch(load_loss_law("besiroglu_2024"), [BatchPhase(batch, 0.0, 15e12)], 70e9)
    ...                 for batch in (4e6, 400e6))
    >>> round(float(np.median(small.worth_fraction)), 2), round(float(np.median(large.worth_fraction)), 2)
    (0.98, 0.4)
    """
    tokens = sum(one.tokens for one in phases)
    worth = worth_of_batches(phases, exponent_beyond(_SCORES))
    loss = pretraining_loss(n_params, worth, law) - pretraining_loss(n_params, tokens, law)
    beyond = " (extrapolated)" if tokens > critical_batch_facts()["plateau_seen_tokens"].value else ""
    why = f"at the critical batch 20 % more tokens are needed, in proportion beyond; its growth with tokens{beyond}"
    return Price("batch", worth / tokens, loss, why, critical_batch_facts()["overhead_ratio"].source)


def price_of_repeats(law: LossLaw, tokens: float, unique_tokens: float, n_params: float) -> Price:
    """What repeated data cost.

    Parameters
    ----------
    law : LossLaw
        Of the loss.
    tokens : float
        Of the run [token].
    unique_tokens : float
        Fresh ones among them [token].
    n_params : float
        Multiplied by each token [-].

    Returns
    -------
    Price
        At the published half-life.

    Examples
    --------
    >>> from computeledger.economics.scaling.laws import load_loss_law
    >>> round(price_of_repeats(load_loss_law("besiroglu_2024"), 4e12, 1e12, 8e9).worth_fraction, 3)
    0.931
    """
    worth = float(worth_of_tokens(tokens, unique_tokens)[0])
    loss = pretraining_loss(n_params, worth, law) - pretraining_loss(n_params, tokens, law)
    return Price(
        "repeated data",
        worth / tokens,
        loss,
        f"{tokens / unique_tokens:.3g} epochs",
        read_law("muennighoff_2023")[1]["source"],
    )


def price_of_local_steps(law: LossLaw, tokens: float, n_sites: int, local_steps: int, n_params: float) -> Price:
    """What local steps cost, as published: a share of the loss by size of the model and number of replicas.

    Interpolated in the logarithms of both; beyond 10B parameters and 8 replicas the last value holds (assumption). It
    was measured with 30 local steps; more cost more, less so for larger models. Where local steps did better, the outer
    momentum did: no gain is counted (assumption).

    Parameters
    ----------
    law : LossLaw
        Of the loss.
    tokens : float
        Of the run [token].
    n_sites : int
        Replicas [-].
    local_steps : int
        Between two exchanges [-].
    n_params : float
        Multiplied by each token [-].

    Returns
    -------
    Price
        Whose worth is that of tokens that would give the same loss.

    References
    ----------
    charles-2025-diloco.

    Examples
    --------
    >>> from computeledger.economics.scaling.laws import load_loss_law
    >>> two, eight = (price_of_local_steps(load_loss_law("besiroglu_2024"), 1e12, n, 30, 2.4e9) for n in (2, 8))
    >>> float(two.loss), bool(eight.loss > 0.01), bool(eight.worth_fraction < 1)
    (0.0, True, True)
    """
    table, origin = read_law("charles_2025")
    rows = {int(count): values for count, values in table["loss_percent"].items()}
    sizes = np.log(table["n_params"])
    share = [np.interp(np.log(n_params), sizes[: len(rows[count])], rows[count]) for count in sorted(rows)]
    percent = float(np.interp(np.log2(n_sites), np.log2(sorted(rows)), share))
    whole = pretraining_loss(n_params, tokens, law)
    loss = np.maximum(whole * percent / 100, 0.0)
    data = law.B / tokens**law.beta
    worth = (data / (data + loss)) ** (1 / law.beta)
    measured = "" if local_steps == table["local_steps"] else f"; measured with {table['local_steps']} local steps"
    beyond = "; beyond 10B parameters as at 10B" if n_params > np.exp(sizes[-1]) else ""
    said = f"{percent:+.2f} % of the loss{', counted as none' * (percent < 0)}{measured}{beyond}"
    return Price("local steps", worth, loss, said, origin["source"])
