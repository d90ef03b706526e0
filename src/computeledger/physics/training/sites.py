"""Training on several sites: data parallelism over a link between them, every step or every few hundred steps."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from computeledger.arrays import Num
from computeledger.bounds import AT_LEAST_ONE, NOT_NEGATIVE, POSITIVE, check_record
from computeledger.errors import LayoutError
from computeledger.physics.parallelism import Layout
from computeledger.physics.training.batch import Batch

#: Bytes of a value on its way to another site: 16 bits (assumption; quantised outer gradients take fewer).
SITE_VALUE_BYTES = 2.0
#: What local steps keep beside the optimizer: the weights of the last exchange and the outer momentum, both in 32 bits.
OUTER_BYTES = 8.0


@dataclass(frozen=True, slots=True)
class Sites:
    """Sites that train one model together, each with all of it.

    Attributes
    ----------
    n : int
        Sites that share the data-parallel ranks [-].
    bytes_per_s : float or ndarray
        Of all that leaves one site for the others, per direction [byte/s].
    latency_s : float or ndarray
        One way between two sites [s].
    local_steps : int
        Steps between two exchanges: 1 exchanges gradients in each, more are local steps (DiLoCo) [-].
    """

    n: int
    bytes_per_s: Num
    latency_s: Num = 0.0
    local_steps: int = 1

    def __post_init__(self) -> None:
        check_record(
            self, n=AT_LEAST_ONE, bytes_per_s=POSITIVE, latency_s=NOT_NEGATIVE, local_steps=AT_LEAST_ONE
        )  # fmt: skip


def of_one_site(sites: Sites, layout: Layout, batch: Batch) -> tuple[Layout, Batch]:
    """The share of a job that one site has: its data-parallel ranks and their sequences.

    Parameters
    ----------
    sites : Sites
        With their number.
    layout : Layout
        Of all sites together.
    batch : Batch
        Of all sites together.

    Returns
    -------
    tuple of Layout and Batch
        Of one site.

    Raises
    ------
    LayoutError
        Where the data-parallel ranks do not divide over the sites.

    Examples
    --------
    >>> layout, batch = of_one_site(Sites(2, 50e9), Layout(tp=8, dp=64), Batch(8192.0, 1024.0))
    >>> str(layout), batch.global_sequences
    ('tp8-dp32', 512.0)
    """
    if np.any(np.asarray(layout.dp) % sites.n):
        raise LayoutError(f"layout {layout}: {sites.n} sites share the data-parallel ranks: dp must be a multiple")
    inner = replace(layout, dp=layout.dp // sites.n)
    if np.any(np.asarray(inner.n_gpus_per_stage) % np.asarray(layout.ep)):
        raise LayoutError(f"layout {layout}: the experts of ep{layout.ep} do not stand within one of {sites.n} sites")
    return inner, replace(batch, global_sequences=batch.global_sequences / sites.n)


def site_exchange_s(n_params: Num, sites: Sites) -> Num:
    """Time that exchanging gradients between sites adds to a step; nothing hides it.

    ``(2 x 2 N (1 - 1/n) / W + 2 (n - 1) latency) / H``: a ring of ``n`` sites over a link of ``W`` bytes/s, once in
    ``H`` steps.

    Parameters
    ----------
    n_params : float or ndarray
        Values that are trained, ``N`` [-].
    sites : Sites
        Their number, links and local steps.

    Returns
    -------
    float or ndarray
        Mean over steps [s].

    References
    ----------
    charles-2025-diloco.

    Examples
    --------
    >>> every, seldom = (site_exchange_s(405e9, Sites(2, 50e9, 0.02, h)) for h in (1, 100))
    >>> round(every, 2), round(every / seldom)
    (16.24, 100)
    """
    n = sites.n
    wire = 2 * SITE_VALUE_BYTES * n_params * (1 - 1 / n) / sites.bytes_per_s
    whole: Num = (wire + 2 * (n - 1) * sites.latency_s) / sites.local_steps
    return whole
