"""What an engine was told when it started: how many sequences, how large a chunk, graphs or none."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from computeledger.arrays import Num
from computeledger.bounds import AT_LEAST_ONE, Bound, check_record
from computeledger.physics.serving.operations import CHUNK_TOKENS, Step

#: Sequences that a replica decodes at once at most where nobody says otherwise (assumption: engines' defaults are 256
#: to 1,024).
LIVE_LIMIT = 1024


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """An engine's own settings, as far as they decide times.

    Attributes
    ----------
    max_batch : float or ndarray
        Sequences of a replica that decode at once at most; the others wait [-].
    chunk_tokens : float or ndarray
        Tokens of prompts that a rank takes in one step at most [token].
    is_eager : bool
        Whether decode steps are launched kernel by kernel, without captured graphs.
    """

    max_batch: Num = np.inf
    chunk_tokens: Num = CHUNK_TOKENS
    is_eager: bool = False

    def __post_init__(self) -> None:
        check_record(self, max_batch=Bound(1.0, is_endless=True), chunk_tokens=AT_LEAST_ONE)

    def prompts(self, sequences: Num, context_tokens: Num, new_tokens: Num) -> Step:
        """A pass over prompts.

        Parameters
        ----------
        sequences : float or ndarray
            Prompts, all attention-DP ranks together [-].
        context_tokens, new_tokens : float or ndarray
            Of each: in the cache already, and to be computed [token].

        Returns
        -------
        Step
            In chunks of this engine.

        Examples
        --------
        >>> EngineSettings(chunk_tokens=512.0).prompts(1.0, 0.0, 4096.0).chunk_tokens
        512.0
        """
        return Step(sequences, context_tokens, new_tokens, decode=False, chunk_tokens=self.chunk_tokens)

    def decoding(self, in_flight: Num, ranks: Num, lengths: tuple[Num, Num]) -> Num:
        """Sequences that decode while the rest of those in flight waits for a chunk to take its prompt.

        A step takes ``chunk`` tokens of prompts on every rank, and ``B`` decoding sequences call for ``B I / O``; a
        chunk as large as that of the fit bounds nothing here.

        Parameters
        ----------
        in_flight, ranks : float or ndarray
            Requests of the replica, and ranks that take prompts [-].
        lengths : tuple of float or ndarray
            Input without what is cached, and output [token].

        Returns
        -------
        float or ndarray
            At least 1 where there are as many [-].

        Examples
        --------
        >>> [float(EngineSettings(chunk_tokens=one).decoding(64.0, 1, (4096.0, 512.0))) for one in (256.0, 8192.0)]
        [32.0, 64.0]
        """
        most = np.maximum(self.chunk_tokens * ranks * lengths[1] / np.maximum(lengths[0], 1.0), 1.0)
        return np.where(np.asarray(self.chunk_tokens) < CHUNK_TOKENS, np.minimum(in_flight, most), in_flight)

    def steps_more(self, input_tokens: Num) -> Num:
        """Decode steps of others that a prompt joins beyond those that the constants are fitted with.

        Parameters
        ----------
        input_tokens : float or ndarray
            Of the prompt, without what is cached [token].

        Returns
        -------
        float or ndarray
            0 for a chunk as large as theirs [-].

        Examples
        --------
        >>> float(EngineSettings(chunk_tokens=512.0).steps_more(4096.0)), float(EngineSettings().steps_more(1e6))
        (7.0, 0.0)
        """
        if np.all(np.asarray(self.chunk_tokens) >= CHUNK_TOKENS):
            return 0.0
        n, fitted = (np.ceil(input_tokens / one) for one in (self.chunk_tokens, CHUNK_TOKENS))
        more: Num = np.maximum(n - fitted, 0.0)
        return more


#: What nobody stated: what memory holds, and the chunk of the fit.
AS_FITTED = EngineSettings()
