"""What an optimizer keeps and computes: moments, preconditioners, orthogonalisation of whole matrices."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass

from computeledger.errors import unknown_id
from computeledger.facts.architecture import Attention, FeedForward, LayerGroup
from computeledger.facts.catalog import shipped_file
from computeledger.facts.reading import read_facts, read_file
from computeledger.physics.attention import mixer_of
from computeledger.physics.transformer import always_active_params, expert_params

#: Optimizers that are known, the usual one first.
OPTIMIZERS = ("adamw", "sgd", "lion", "adafactor", "muon", "shampoo", "soap")
#: Of the peak at 16 bits that a decomposition reaches (assumption: fp32 and little parallel work).
DECOMPOSITION_FRACTION = 0.003


@dataclass(frozen=True, slots=True)
class Optimizer:
    """What an optimizer keeps and computes; the file of facts says what each number is.

    Attributes
    ----------
    name : str
        Of tables.
    n_moments, n_moments_elsewhere, n_vectors, n_side_tensors, n_most_block, n_most_side : float
        What is kept; blocks and sides are endless where 0 [-].
    n_iterations, n_passes, n_interval_steps, decomposition_ratio : float
        What is computed; the last in FLOP over the cube of a side [-].
    """

    name: str
    n_moments: float
    n_moments_elsewhere: float
    n_vectors: float = 0.0
    n_side_tensors: float = 0.0
    n_most_block: float = 0.0
    n_most_side: float = 0.0
    n_iterations: float = 0.0
    n_passes: float = 0.0
    n_interval_steps: float = 1.0
    decomposition_ratio: float = 0.0

    @property
    def needs_matrices(self) -> bool:
        """Whether a step needs matrices whole, so that sharded ones are gathered."""
        return self.n_iterations > 0 or self.n_passes > 0


@functools.cache
def load_optimizer(name: str) -> Optimizer:
    """Load an optimizer.

    Parameters
    ----------
    name : str
        One of :data:`OPTIMIZERS`.

    Returns
    -------
    Optimizer
        What it keeps and computes.

    Raises
    ------
    UnknownIdError
        With the nearest name.

    Examples
    --------
    >>> load_optimizer("muon").n_moments, load_optimizer("muon").needs_matrices
    (1.0, True)
    """
    document = read_file(shipped_file("optimizers.toml"), shipped=True)
    if name not in document.table:
        raise unknown_id("optimizer", name, OPTIMIZERS)
    table = dict(document.table[name])
    label = str(table.pop("name"))
    return Optimizer(label, **{key: fact.value for key, fact in read_facts(document, name, table).items()})


@dataclass(frozen=True, slots=True)
class Matrix:
    """A weight matrix of a layer.

    Attributes
    ----------
    rows, columns, count : float
        Sides, and how many there are [-].
    """

    rows: float
    columns: float
    count: float = 1.0

    @property
    def params(self) -> float:
        """Of all [-]."""
        return self.rows * self.columns * self.count


def mixer_matrices(shape: Attention, hidden_size: int) -> list[Matrix]:
    """Matrices of a mixer; what the heads do not explain stands as one matrix as wide as the residual stream.

    Parameters
    ----------
    shape : Attention
        Heads, widths and ranks.
    hidden_size : int
        ``D`` [-].

    Returns
    -------
    list of Matrix
        As many parameters as the mixer has.

    Examples
    --------
    >>> from computeledger.facts.load import load_model
    >>> model = load_model("llama-3.1-8b")
    >>> [(one.rows, one.columns) for one in mixer_matrices(model.layers[0].attention, model.hidden_size)]
    [(4096.0, 4096.0), (4096.0, 1024.0), (4096.0, 1024.0), (4096.0, 4096.0)]
    """
    if not shape.is_present:
        return []
    whole = float(mixer_of(shape).params(hidden_size))
    found = list(_attention(shape, float(hidden_size)))
    rest = whole - sum(one.params for one in found)
    if rest < 0:
        found, rest = [], whole
    return [*found, Matrix(float(hidden_size), rest / hidden_size)] if rest else found


def _attention(shape: Attention, d: float) -> Iterator[Matrix]:
    queries, out = shape.n_query_heads * shape.qk_head_dim, shape.n_query_heads * shape.v_head_dim
    if shape.q_lora_rank:
        yield Matrix(d, float(shape.q_lora_rank))
        yield Matrix(float(shape.q_lora_rank), float(queries))
    else:
        yield Matrix(d, float(queries))
    if shape.kv_lora_rank:
        heads = shape.n_query_heads * (shape.qk_head_dim - shape.rope_head_dim + shape.v_head_dim)
        yield Matrix(d, float(shape.kv_lora_rank + shape.rope_head_dim))
        yield Matrix(float(shape.kv_lora_rank), float(heads))
    elif not shape.shares_kv:
        yield Matrix(d, float(shape.n_kv_heads * shape.qk_head_dim))
        if not shape.one_kv_projection:
            yield Matrix(d, float(shape.n_kv_heads * shape.v_head_dim))
    if not shape.output_params:
        yield Matrix(float(out), d)


def _dense(part: FeedForward, hidden_size: int) -> list[Matrix]:
    """Matrices of dense and shared MLPs; what is left is the router."""
    d = float(hidden_size)
    found = [Matrix(d, float(part.width), part.n_matrices)] if part.width else []
    if part.n_shared_experts:
        found.append(Matrix(d, float(part.shared_width), part.n_matrices * part.n_shared_experts))
    rest = always_active_params(part, hidden_size) - sum(one.params for one in found)
    return [*found, Matrix(d, rest / d)] if rest > 0 else found


@dataclass(frozen=True, slots=True)
class Update:
    """What an optimizer keeps and computes for the hidden matrices of a model, per parameter.

    Attributes
    ----------
    state_values : float
        Values kept beside a master copy, over the parameters [-].
    flop, decomposition_flop : float
        Of a step, per parameter: products, and decompositions spread over the steps between them [FLOP].
    largest_flop : float
        Products of the largest matrix, which one GPU computes [FLOP].
    """

    state_values: float
    flop: float
    decomposition_flop: float
    largest_flop: float


@functools.cache
def update_of(name: str, layers: tuple[LayerGroup, ...], hidden_size: int, routed: bool) -> Update:
    """Count what an optimizer keeps and computes for the matrices of layers.

    Newton-Schulz takes ``k (4 m^2 n + 2 m^3)`` for ``m <= n``; preconditioning ``p 2 m n (m + n)``, and now and then a
    decomposition of ``c (m^3 + n^3)``.

    Parameters
    ----------
    name : str
        Of an optimizer.
    layers : tuple of LayerGroup
        Of a model.
    hidden_size : int
        ``D`` [-].
    routed : bool
        Whether routed experts are asked about, or all that is dense.

    Returns
    -------
    Update
        Per parameter.

    References
    ----------
    muon-blog; distributed-shampoo; soap-code.

    Examples
    --------
    >>> from computeledger.facts.load import load_model
    >>> layers = load_model("llama-3.1-405b").layers
    >>> update = update_of("muon", layers, 16384, False)
    >>> update.state_values, update.flop <= 5 * 6 * 16384
    (1.0, True)
    """
    optimizer = load_optimizer(name)
    found = []
    for group in layers:
        part = group.feed_forward
        if routed and part.n_experts:
            wide = float(part.latent_width or hidden_size)
            each = expert_params(part, hidden_size) / wide / part.n_matrices
            found += [Matrix(wide, each, part.n_matrices * part.n_experts * group.count)]
        elif not routed:
            own = [*mixer_matrices(group.attention, hidden_size), *_dense(part, hidden_size)]
            found += [Matrix(one.rows, one.columns, one.count * group.count) for one in own]
    params = sum(one.params for one in found)
    if not params:
        return Update(0.0, 0.0, 0.0, 0.0)
    counted = [(one, *_of_matrix(optimizer, one.rows, one.columns)) for one in found]
    return Update(
        state_values=sum(one.count * state for one, state, _, _ in counted) / params,
        flop=sum(one.count * flop for one, _, flop, _ in counted) / params,
        decomposition_flop=sum(one.count * flop for one, _, _, flop in counted) / params,
        largest_flop=max(flop for _, _, flop, _ in counted),
    )


def _of_matrix(optimizer: Optimizer, rows: float, columns: float) -> tuple[float, float, float]:
    """Values kept, FLOP of products, and of decompositions per step."""
    short, long = min(rows, columns), max(rows, columns)
    size = rows * columns
    block = optimizer.n_most_block or long
    sides = [min(short, block), min(long, block)]
    n_blocks = size / sides[0] / sides[1]
    if optimizer.n_most_side:
        sides = [side for side in sides if side <= optimizer.n_most_side]
    state = optimizer.n_moments * size + optimizer.n_vectors * (rows + columns)
    state += optimizer.n_side_tensors * n_blocks * sum(side**2 for side in sides)
    flop = optimizer.n_iterations * (4 * short**2 * long + 2 * short**3)
    flop += optimizer.n_passes * 2 * size * sum(sides)
    cubes = optimizer.decomposition_ratio * n_blocks * sum(side**3 for side in sides)
    return state, flop, cubes / optimizer.n_interval_steps
