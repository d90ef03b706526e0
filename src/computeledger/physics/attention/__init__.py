"""One class per kind of attention: its parameters, cache, arithmetic, visible tokens and floors.

A kind is a subclass of :class:`~computeledger.physics.attention.mixer.Mixer` and its place in :data:`KINDS`; everything
else calls the methods of what :func:`mixer_of` returns.
"""

from __future__ import annotations

from computeledger.errors import unknown_id
from computeledger.facts.architecture import Attention
from computeledger.physics.attention.latent import Latent
from computeledger.physics.attention.linear import GatedDelta, KimiDelta, Lightning, Mamba2
from computeledger.physics.attention.mixer import Mixer
from computeledger.physics.attention.softmax import Compressed, Softmax

#: The class of every kind.
KINDS: dict[str, type[Mixer]] = {
    one.kind: one for one in (Mixer, Softmax, Compressed, Latent, GatedDelta, KimiDelta, Mamba2, Lightning)
}


def mixer_of(attention: Attention) -> Mixer:
    """Find the class of a layer's mixer.

    Parameters
    ----------
    attention : Attention
        The shape that a configuration states.

    Returns
    -------
    Mixer
        What it stores, sees, keeps, computes and waits for.

    Examples
    --------
    >>> float(mixer_of(Attention("gqa", 64, 8, 128, 128)).kv_shards(16))
    8.0
    """
    if attention.kind not in KINDS:
        raise unknown_id("attention kind", attention.kind, KINDS)
    return KINDS[attention.kind](attention)
