"""The trainer's part of an RL step: log-probs and update over packed rollouts of very different lengths."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from computeledger.arrays import Num
from computeledger.bounds import AT_LEAST_ONE, POSITIVE, check_record
from computeledger.facts.architecture import Lora, Model
from computeledger.physics.calibration.rl import RLFactors
from computeledger.physics.parallelism import Layout
from computeledger.physics.roofline import Machine, Precision
from computeledger.physics.training.batch import Batch, with_adapters
from computeledger.physics.training.step import StepTime, exposed_s, step_time

#: Tokens of a training microbatch where neither a question nor a search says (assumption).
PACK_TOKENS = 8192.0


@dataclass(frozen=True, slots=True)
class Trainer:
    """Where and how the update runs.

    Attributes
    ----------
    layout : Layout
        Of all training GPUs.
    precision : Precision
        Of matrix products by kind.
    pack_tokens : float or ndarray
        Tokens of a microbatch on one data-parallel rank, in which rollouts are packed; at least one rollout [token].
    recompute : str
        ``none``, ``selective`` or ``full``.
    virtual_stages : float or ndarray
        Interleaved model chunks per pipeline stage [-].
    is_sharded : bool
        Whether data-parallel ranks share the weights (FSDP, ZeRO-3) and gather them for every microbatch.
    microbatch_sequences : float or ndarray or None
        Rollouts of a microbatch; None for as many as ``pack_tokens`` hold [-].
    is_padded : bool
        Whether rollouts of a microbatch are padded to its longest one, and not packed.
    gathers_once : bool
        Whether shared weights stay gathered while log-probs are computed.
    lora : Lora or None
        Adapters that are trained beside frozen weights; None trains everything.
    """

    layout: Layout
    precision: Precision = field(default_factory=Precision)
    pack_tokens: Num = PACK_TOKENS
    recompute: str = "full"
    virtual_stages: Num = 1.0
    is_sharded: bool = False
    microbatch_sequences: Num | None = None
    is_padded: bool = False
    gathers_once: bool = False
    lora: Lora | None = None

    def __post_init__(self) -> None:
        check_record(self, pack_tokens=POSITIVE, virtual_stages=AT_LEAST_ONE, microbatch_sequences=AT_LEAST_ONE)

    def batch(self, sequence_tokens: Num, sequences: Num) -> Batch:
        """State one optimizer step.

        Parameters
        ----------
        sequence_tokens : float or ndarray
            Mean of prompt and rollout [token].
        sequences : float or ndarray
            Rollouts of the step, all ranks together [-].

        Returns
        -------
        Batch
            With as many rollouts per microbatch as are stated, or as its tokens hold.

        Examples
        --------
        >>> float(Trainer(Layout(dp=8)).batch(2048.0, 512.0).microbatch_sequences)
        4.0
        """
        held = self.pack_tokens / sequence_tokens if self.microbatch_sequences is None else self.microbatch_sequences
        each = np.clip(held, 1.0, np.maximum(sequences / self.layout.dp, 1.0))
        return Batch(sequence_tokens, sequences, each, self.recompute, self.virtual_stages, self.is_sharded)


@dataclass(frozen=True, slots=True)
class Pieces:
    """How a trainer forms microbatches, and whether its ranks share the weights, before its layout is known.

    Attributes
    ----------
    microbatch_sequences : float or None
        Rollouts of a microbatch at most; None for as many as its tokens hold [-].
    is_padded : bool
        Whether they are padded to the longest of them.
    is_sharded : bool
        Whether data-parallel ranks share the weights.
    gathers_once : bool
        Whether they stay gathered while log-probs are computed.
    lora : Lora or None
        Adapters that are trained beside frozen weights; None trains everything.
    """

    microbatch_sequences: float | None = None
    is_padded: bool = False
    is_sharded: bool = False
    gathers_once: bool = False
    lora: Lora | None = None

    def applied(self, trainer: Trainer) -> Trainer:
        """Apply it to a trainer; weights are shared where no pipeline and no experts divide them.

        Parameters
        ----------
        trainer : Trainer
            With its layout.

        Returns
        -------
        Trainer
            With microbatches as stated here.

        Examples
        --------
        >>> pieces = Pieces(is_sharded=True)
        >>> [pieces.applied(Trainer(one)).is_sharded for one in (Layout(tp=2, dp=4), Layout(pp=2, dp=4))]
        [True, False]
        """
        layout = trainer.layout
        is_whole = bool(np.all((np.asarray(layout.pp) == 1) & (np.asarray(layout.ep) == 1)))
        return replace(
            trainer,
            microbatch_sequences=self.microbatch_sequences,
            is_padded=self.is_padded,
            is_sharded=self.is_sharded and is_whole,
            gathers_once=self.gathers_once,
            lora=self.lora,
        )


@dataclass(frozen=True, slots=True)
class Training:
    """What the trainer takes in one RL step.

    Attributes
    ----------
    logprob_s, update_s : float or ndarray
        Wall time [s].
    step : StepTime
        One optimizer step by part.
    scoring_s : mapping of str to float or ndarray
        Of the passes that score a text, by phase [s].
    """

    logprob_s: Num
    update_s: Num
    step: StepTime
    scoring_s: Mapping[str, Num] = field(default_factory=dict)

    @property
    def wall_s(self) -> Num:
        """All of it [s]."""
        whole = self.logprob_s + self.update_s
        for part in self.scoring_s.values():
            whole = whole + part
        return whole


@dataclass(frozen=True, slots=True)
class Passes:
    """How often the trainer goes over the rollouts of a step.

    Attributes
    ----------
    sequence_tokens : float or ndarray
        Mean of prompt and rollout [token].
    scored, trained : float or ndarray
        Rollouts times forward passes, and times updates [-].
    optimizer_steps : float or ndarray
        Into which the update is cut [-].
    trained_tokens : float or ndarray or None
        Mean length of what the update goes over; as ``sequence_tokens`` when left out [token].
    apart : mapping of str to tuple of float or ndarray
        Forward passes of other lengths, by phase: mean length [token], and sequences [-].
    """

    sequence_tokens: Num
    scored: Num
    trained: Num
    optimizer_steps: Num
    trained_tokens: Num | None = None
    apart: Mapping[str, tuple[Num, Num]] = field(default_factory=dict)


def train(model: Model, trainer: Trainer, passes: Passes, made_of: tuple[Machine, RLFactors]) -> Training:
    """Time log-probs and update.

    A forward pass takes one part in ``3 + recomputed`` of a microbatch that trains everything, whatever is frozen; the
    pipeline's bubble comes once per sweep. Sharded weights are gathered once for each of its microbatches, or once for
    all. With adapters the update leaves out weight gradients, optimizer and exchange of what is frozen.

    Parameters
    ----------
    model : Model
        The policy.
    trainer : Trainer
        Layout, precision, packing.
    passes : Passes
        What it goes over.
    made_of : tuple of Machine and RLFactors
        One GPU of the trainer, and what RL adds.

    Returns
    -------
    Training
        Zero where nothing is scored or trained on.

    Examples
    --------
    >>> from computeledger.facts.load import load_model, load_system
    >>> from computeledger.physics.calibration.rl import IDEAL_RL
    >>> passes = Passes(2048.0, 512.0, 512.0, 1.0)
    >>> made_of = Machine(load_system("h100-nvl8")), IDEAL_RL
    >>> found = train(load_model("llama-3.1-8b"), Trainer(Layout(dp=8)), passes, made_of)
    >>> bool(0.2 < found.logprob_s / found.update_s < 0.3)
    True
    """
    machine, factors = made_of
    whole = passes.sequence_tokens if passes.trained_tokens is None else passes.trained_tokens
    batch = trainer.batch(whole, passes.trained / passes.optimizer_steps)
    step = step_time(model, with_adapters(batch, model, trainer.lora), trainer.layout, trainer.precision, machine)

    def forward_s(tokens: Num, sequences: Num) -> Num:
        """Time of a forward pass over sequences."""
        sweep = trainer.batch(tokens, np.maximum(sequences, 1.0))
        one = step_time(model, sweep, trainer.layout, trainer.precision, machine)
        took_s = (one.microbatch_s * one.microbatches + one.bubble_s) / (3 + batch.forward_again)
        gathers_s = one.gather_s / (one.microbatches if trainer.gathers_once else 1.0)
        took_s = took_s + exposed_s(gathers_s, took_s, machine)
        return factors.rl_training_ratio * np.where(np.asarray(sequences) > 0, took_s, 0.0)

    return Training(
        logprob_s=forward_s(passes.sequence_tokens, passes.scored),
        update_s=factors.rl_training_ratio
        * np.where(np.asarray(passes.trained) > 0, passes.optimizer_steps * step.step_s, 0.0),
        step=step,
        scoring_s={name: forward_s(*one) for name, one in passes.apart.items()},
    )
