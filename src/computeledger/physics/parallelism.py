"""Parallel layouts: how a model is cut over GPUs, and which cuts are legal."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from computeledger.arrays import Num
from computeledger.bounds import AT_LEAST_ONE, check_record
from computeledger.errors import LayoutError, check_kind
from computeledger.facts.architecture import Model
from computeledger.units import format_count

_DEGREES = dict.fromkeys(("tp", "pp", "dp", "cp", "ep"), AT_LEAST_ONE)
_PART = re.compile(r"(tp|pp|dp|cp|ep)(\d+)")


@dataclass(frozen=True, slots=True)
class Layout:
    """Degrees of parallelism; each may be an array, so that one call covers many layouts.

    ``tp x dp`` GPUs form a pipeline stage: ``tp`` ranks share each sequence's attention, ``dp`` groups hold
    different sequences. Experts are spread over ``ep`` groups of the same GPUs and each is cut in the
    ``tp x dp x cp / ep`` GPUs of its group: EP overlaps DP x TP, so the world is ``tp x pp x dp x cp``.

    Attributes
    ----------
    tp, pp, dp, cp, ep : float or ndarray
        Tensor, pipeline, (attention-)data, context and expert parallel degrees [-].
    """

    tp: Num = 1
    pp: Num = 1
    dp: Num = 1
    cp: Num = 1
    ep: Num = 1

    def __post_init__(self) -> None:
        check_record(self, **_DEGREES)

    @property
    def n_gpus(self) -> Num:
        """GPUs of one replica (serving) or of the whole job (training) [-]."""
        return self.tp * self.pp * self.dp * self.cp

    @property
    def n_gpus_per_stage(self) -> Num:
        """GPUs that hold one pipeline stage [-]."""
        return self.tp * self.dp * self.cp

    def __str__(self) -> str:
        parts = ((name, getattr(self, name)) for name in ("tp", "pp", "dp", "cp", "ep"))
        return "-".join(f"{name}{int(value)}" for name, value in parts if name == "tp" or value != 1)


def parse_layout(text: str) -> Layout:
    """Read a layout as it is written.

    Parameters
    ----------
    text : str
        ``tp8-pp2-dp4-cp1-ep32``; parts equal to 1 may be left out, in any order.

    Returns
    -------
    Layout
        With integer degrees.

    Raises
    ------
    LayoutError
        A part that is not tp, pp, dp, cp or ep with a positive number, or one given twice.

    Examples
    --------
    >>> parse_layout("tp8-ep8").n_gpus
    8
    """
    check_kind(text, str, "a layout, such as 'tp8-ep8'")
    degrees: dict[str, int] = {}
    for part in text.strip().lower().split("-"):
        match = _PART.fullmatch(part)
        if match is None or int(match[2]) < 1:
            raise LayoutError(f"layout {text!r}: {part!r} is not a part; write for example tp8-pp2-dp4-cp1-ep32")
        if match[1] in degrees:
            raise LayoutError(f"layout {text!r}: {match[1]} is given twice")
        degrees[match[1]] = int(match[2])
    return Layout(**degrees)


def check_layout(layout: Layout, model: Model, n_gpus: int | None = None) -> Layout:
    """Refuse a layout that cannot exist.

    Parameters
    ----------
    layout : Layout
        Integer degrees.
    model : Model
        What is to be cut.
    n_gpus : int, optional
        GPUs at hand [-]; the layout must use all of them or a divisor of them.

    Returns
    -------
    Layout
        The same layout.

    Raises
    ------
    LayoutError
        Heads, layers or experts that do not divide, or too many GPUs.

    Examples
    --------
    >>> from computeledger.facts.load import load_model
    >>> str(check_layout(parse_layout("tp8-ep8"), load_model("deepseek-v3"), 8))
    'tp8-ep8'
    """
    problem = _layout_problem(layout, model)
    if problem:
        raise LayoutError(f"layout {layout}: {problem}")
    world = int(layout.n_gpus)
    if n_gpus is not None and (world > n_gpus or n_gpus % world):
        raise LayoutError(f"layout {layout} uses {world:,} GPUs: {n_gpus:,} GPUs are not a multiple of that")
    return layout


def _layout_problem(layout: Layout, model: Model) -> str | None:
    tp, pp, ep, stage = int(layout.tp), int(layout.pp), int(layout.ep), int(layout.n_gpus_per_stage)
    for group in model.layers:
        heads = group.attention.n_query_heads
        if heads % tp:
            return f"{heads} attention heads of {model.id} cannot be divided {tp} ways; tp must divide {heads}"
    experts = model.n_experts
    if pp > model.n_layers:
        return f"{pp} pipeline stages but only {model.n_layers} layers in {model.id}"
    if ep > 1 and not experts:
        return f"ep{ep} but {model.id} is dense: it has no experts"
    if ep > 1 and experts % ep:
        return f"{experts} experts of {model.id} cannot be spread over ep{ep}; ep must divide {experts}"
    if stage % ep:
        return f"ep{ep} must divide tp x dp x cp = {stage}"
    return None


def powers_of_two(limit: int) -> list[int]:
    """Degrees worth trying.

    Parameters
    ----------
    limit : int
        Largest degree [-].

    Returns
    -------
    list of int
        1, 2, 4, ... up to the limit [-].

    Examples
    --------
    >>> powers_of_two(8)
    [1, 2, 4, 8]
    """
    return [2**power for power in range(max(limit, 0).bit_length()) if 2**power <= limit]


def _divisors(n: int) -> list[int]:
    return [d for d in range(1, n + 1) if n % d == 0]


def serving_layouts(model: Model, n_gpus: int, n_scale_up: int) -> list[Layout]:
    """List the layouts that can serve a model on at most a number of GPUs.

    Parameters
    ----------
    model : Model
        What is to be served.
    n_gpus : int
        GPUs at hand [-]; every layout uses a divisor of them.
    n_scale_up : int
        GPUs in one scale-up domain [-]; tensor parallelism stays inside it.

    Returns
    -------
    list of Layout
        Legal layouts: tp inside the domain, dp for attention, pp, and experts either spread over the whole stage or
        cut like the dense layers.

    Raises
    ------
    LayoutError
        Where no layout is legal.

    Examples
    --------
    >>> from computeledger.facts.load import load_model
    >>> [str(layout) for layout in serving_layouts(load_model("llama-3.1-8b"), 2, 8)]
    ['tp1', 'tp2', 'tp1-pp2']
    """
    found = []
    for world in _divisors(n_gpus):
        for pp in powers_of_two(min(world, 8)):
            for tp in powers_of_two(min(world // pp, n_scale_up)):
                dp, rest = divmod(world, pp * tp)
                is_moe = model.is_moe
                if rest or (dp > 1 and not is_moe):
                    continue
                for ep in {1, tp * dp} if is_moe else {1}:
                    layout = Layout(tp=tp, pp=pp, dp=dp, ep=ep)
                    if (dp == 1 or ep > 1) and _layout_problem(layout, model) is None:
                        found.append(layout)
    if not found:
        raise LayoutError(f"no legal layout of {model.id} on {format_count(n_gpus, 'GPU')}")
    return sorted(found, key=lambda one: (int(one.n_gpus), int(one.pp), int(one.tp), int(one.ep)))


def filled(layout: Layout, n_gpus: int | None) -> Layout:
    """Give a layout without ``dp`` as many data-parallel ranks as the GPUs allow.

    Parameters
    ----------
    layout : Layout
        Scalar.
    n_gpus : int or None
        GPUs of the job; None where nobody says [-].

    Returns
    -------
    Layout
        The same where it states ``dp``, or where its GPUs do not divide those of the job.

    Examples
    --------
    >>> str(filled(Layout(tp=2), 64)), str(filled(Layout(tp=2, dp=4), 64))
    ('tp2-dp32', 'tp2-dp4')
    """
    if n_gpus is not None and layout.dp == 1 and n_gpus % int(layout.n_gpus) == 0:
        return replace(layout, dp=n_gpus // int(layout.n_gpus))
    return layout


def stack_layouts(layouts: Sequence[Layout], trailing_axes: int = 1) -> Layout:
    """Put many layouts on one axis.

    Parameters
    ----------
    layouts : sequence of Layout
        Scalars.
    trailing_axes : int
        Axes of length 1 behind that of the layouts, such as one that batches broadcast against [-].

    Returns
    -------
    Layout
        Whose degrees are arrays of shape (n, 1, ...).

    Examples
    --------
    >>> two = [Layout(tp=1), Layout(tp=2)]
    >>> stack_layouts(two).tp.shape, stack_layouts(two, trailing_axes=0).tp.shape
    ((2, 1), (2,))
    """
    shape = (len(layouts), *(1,) * trailing_axes)
    names = ("tp", "pp", "dp", "cp", "ep")
    return Layout(**{name: np.array([float(getattr(one, name)) for one in layouts]).reshape(shape) for name in names})
