"""Speculative decoding: what a step yields, and what drafting takes.

A step drafts ``D`` tokens one after the other, verifies them in one pass of the model and keeps those before the first
that is refused, and one more. What drafts is the model's own next-token module, a small head on its hidden states, a
small model beside it, or a search in the text itself.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from computeledger.arrays import Num
from computeledger.bounds import POSITIVE, Bound, check_record
from computeledger.facts.architecture import FeedForward, LayerGroup, Model
from computeledger.physics.parallelism import Layout
from computeledger.physics.roofline import Machine, Operation, Precision, total_s
from computeledger.physics.roofline import OperationKind as Kind
from computeledger.physics.serving.operations import Step, decode_pass, prefill

#: Drafts of a step that are priced at most: published curves end there or before.
MOST_DRAFTS = 8
#: Halvings of a chance that is looked for.
_HALVINGS = 40
#: Chance of a later draft where it rises with every one before that was accepted (assumption).
LARGEST_CHANCE = 0.95


@dataclass(frozen=True, slots=True)
class Acceptance:
    """Chances that drafted tokens are accepted, each given that those before it were.

    The ``k``-th draft is accepted with ``first ratio^(k - 1)``: later drafts rest on drafts, so their chance falls;
    where a text repeats itself it rises.

    Attributes
    ----------
    first : float or ndarray
        Of the first draft [-].
    ratio : float or ndarray
        Of each draft over the one before [-].
    """

    first: Num
    ratio: Num = 1.0

    def __post_init__(self) -> None:
        check_record(self, first=Bound(0.0, 1.0), ratio=POSITIVE)

    def tokens_of_step(self, drafts: Num) -> Num:
        """Tokens that a step yields, its own included: ``1 + sum over k of the chance that k drafts are accepted``.

        Parameters
        ----------
        drafts : float or ndarray
            ``D``, how many are drafted per step; between whole numbers a straight line [-].

        Returns
        -------
        float or ndarray
            Between 1 and ``D + 1`` [token].

        Examples
        --------
        >>> [round(float(Acceptance(one, 0.9).tokens_of_step(3)), 3) for one in (0.0, 0.8, 1.0)], Acceptance(1.0).first
        ([1.0, 2.749, 3.629], 1.0)
        >>> float(Acceptance(1.0).tokens_of_step(3))
        4.0
        """
        asked = np.asarray(drafts, float)
        tokens: Num = 1.0 + 0.0 * asked
        reached, chance = np.ones(()), np.asarray(self.first, float)
        most = np.maximum(chance, LARGEST_CHANCE)
        for before in range(int(np.ceil(np.max(asked, initial=0.0)))):
            reached = reached * np.minimum(chance, most)
            tokens = tokens + reached * np.clip(asked - before, 0.0, 1.0)
            chance = chance * self.ratio
        return tokens


def acceptance_of(tokens_per_step: Num, drafts: Num, ratio: float = 1.0) -> Acceptance:
    """Chances that make a step of so many drafts yield so many tokens.

    Parameters
    ----------
    tokens_per_step : float or ndarray
        Its own token included [token].
    drafts : float or ndarray
        How many are drafted per step [-].
    ratio : float
        Of each draft's chance over that of the one before [-].

    Returns
    -------
    Acceptance
        Whose first draft is accepted in all cases where the figure is above what the ratio allows.

    Examples
    --------
    >>> round(float(acceptance_of(1.75, 2.0).first), 3)
    0.5
    """
    low, high = np.zeros(np.shape(tokens_per_step)), np.ones(np.shape(tokens_per_step))
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        is_less = np.asarray(Acceptance(middle, ratio).tokens_of_step(drafts)) < tokens_per_step
        low, high = np.where(is_less, middle, low), np.where(is_less, high, middle)
    return Acceptance(np.where(high > 0.5, high, low)[()], ratio)


def drafting_head(model: Model, vocabulary: int | None = None) -> Model:
    """A head of one layer on a model's hidden states, such as EAGLE's.

    The layer has the model's own attention, and its dense MLP: of a model of experts that of a layer without them, or
    as wide as the experts that a token visits (assumption).

    Parameters
    ----------
    model : Model
        What it drafts for.
    vocabulary : int, optional
        Tokens that it scores; all of the model's when left out [-].

    Returns
    -------
    Model
        In 16 bits, its table of embeddings shared with its scores.

    Examples
    --------
    >>> from computeledger.facts.load import load_model
    >>> head = drafting_head(load_model("llama-3.1-8b"), 32000)
    >>> head.n_layers, head.vocab_size, head.hidden_size
    (1, 32000, 4096)
    """
    groups = sorted(model.layers, key=lambda one: (not one.feed_forward.width, not one.attention.is_present))
    part = groups[0].feed_forward
    attention = next((one.attention for one in model.layers if one.attention.is_present), groups[0].attention)
    width = part.width or part.n_experts_active * part.expert_width + part.n_shared_experts * part.shared_width
    layer = LayerGroup(1, attention, FeedForward(width=width, n_matrices=part.n_matrices))
    return replace(
        _alone(model), id=f"{model.id} drafting head", layers=(layer,), tied_embeddings=True,
        vocab_size=min(vocabulary or model.vocab_size, model.vocab_size),
    )  # fmt: skip


def _alone(model: Model) -> Model:
    """A model without what an engine keeps beside it, in 16 bits."""
    return replace(
        model, stored=None, n_mtp_layers=0, adapters=None, drafter=None, weight_precision="bf16",
        dense_precision="bf16", expert_precision="bf16", head_precision="bf16", embedding_precision="bf16",
    )  # fmt: skip


def beside(layout: Layout, precision: Precision) -> tuple[Layout, Precision]:
    """Where a drafter lies and in which formats: 16 bits, cut as the attention of its model is, whole on a stage.

    Parameters
    ----------
    layout : Layout
        Of the model.
    precision : Precision
        Of the model; the drafter's cache has its format.

    Returns
    -------
    tuple of Layout, Precision
        Of the drafter.

    Examples
    --------
    >>> str(beside(Layout(tp=4, pp=2), Precision("fp8"))[0]), beside(Layout(), Precision(kv="fp8"))[1].kv
    ('tp4', 'fp8')
    """
    return Layout(tp=layout.tp, dp=layout.dp), Precision(kv=precision.kv)


def drafting(
    model: Model, step: Step, placed: tuple[Layout, Precision], machine: Machine, drafts: Num
) -> list[Operation]:
    """What a drafter beside the model adds to a pass: ``D`` passes of its own, or its own reading of a prompt.

    Each of its passes is launched from the host, as a step is; sequences are scheduled once for all of them.

    Parameters
    ----------
    model : Model
        With its drafter, or without one.
    step : Step
        Of the model.
    placed : tuple of Layout and Precision
        Of the model.
    machine : Machine
        One GPU, its links, and what they reach.
    drafts : float or ndarray
        ``D``; a prompt is read once where any are drafted [-].

    Returns
    -------
    list of Operation
        None without a drafter, and where nothing is drafted.

    Examples
    --------
    >>> from computeledger.facts.load import load_model, load_system
    >>> llama, machine = load_model("llama-3.1-8b"), Machine(load_system("h100-nvl8"))
    >>> made_of = Step(1.0, 1024.0), (Layout(), Precision()), machine, 3.0
    >>> drafting(llama, *made_of), drafting(replace(llama, drafter=drafting_head(llama)), *made_of)[0].name
    ([], 'drafting')
    """
    if model.drafter is None or not np.any(drafts):
        return []
    one = (model.drafter, replace(step, new_tokens=1.0) if step.decode else step, *beside(*placed), machine)
    if not step.decode:
        return [Operation(Kind.DRAFTING, overhead_s=np.minimum(drafts, 1.0) * total_s(prefill(*one)))]
    passed_s = (
        total_s(each for each in decode_pass(*one) if each.kind is not Kind.HOST) + machine.efficiency.host_step_s
    )
    return [Operation(Kind.DRAFTING, overhead_s=drafts * passed_s)]
