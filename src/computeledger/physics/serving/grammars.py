"""Structured output: the masks of tokens that a grammar allows, made on the host in every step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from computeledger.arrays import Num
from computeledger.bounds import FRACTION, check_record
from computeledger.physics.roofline import Operation
from computeledger.physics.roofline import OperationKind as Kind


@dataclass(frozen=True, slots=True)
class Masks:
    """What structured output takes.

    Attributes
    ----------
    mask_s : float or ndarray
        Host time of one mask, on one core: of one token of one sequence [s].
    compile_s : float or ndarray
        Of a schema that the engine has not compiled, before the first token [s].
    sequences_fraction, new_schemas_fraction : float or ndarray
        Share of requests that are structured; of those, the share whose schema is new [-].
    is_overlapped : bool
        Whether the host makes masks while the GPU computes the scores that they are for.
    """

    mask_s: Num
    compile_s: Num = 0.0
    sequences_fraction: Num = 1.0
    new_schemas_fraction: Num = 0.0
    is_overlapped: bool = True

    def __post_init__(self) -> None:
        check_record(self, sequences_fraction=FRACTION, new_schemas_fraction=FRACTION)

    @property
    def first_s(self) -> Num:
        """What the mean request waits for its schema before its first token [s]."""
        return self.sequences_fraction * self.new_schemas_fraction * self.compile_s

    def operations(self, tokens: Num, step_s: Num) -> list[Operation]:
        """What masks add to a decode step: all of them one after the other, or what is longer than the step.

        Parameters
        ----------
        tokens : float or ndarray
            That the step scores on one attention-DP rank, drafts among them [token].
        step_s : float or ndarray
            Of the step without them [s].

        Returns
        -------
        list of Operation
            One.

        Examples
        --------
        >>> [float(Masks(5e-5, is_overlapped=one).operations(64.0, 2e-3)[0].overhead_s) for one in (False, True)]
        [0.0032, 0.0012000000000000001]
        """
        made_s = self.mask_s * self.sequences_fraction * tokens
        return [Operation(Kind.MASKS, overhead_s=np.maximum(made_s - step_s, 0.0) if self.is_overlapped else made_s)]
