"""Micro-benchmarks of this machine: products, memory, attention, launches; low quantiles of interleaved rounds.

Other work on a machine only ever adds time, so a low quantile of many rounds is kept, and the rounds of all cases are
interleaved so that a disturbance strikes all alike. How far the median lies above the least is the spread.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any

from computeledger.actuals.machine.kernels import VALUE_BYTES, Kernels, Layer, LayerShape, default_threads
from computeledger.actuals.machine.on_numpy import numpy_kernels
from computeledger.actuals.machine.on_torch import torch_kernels
from computeledger.errors import InputError
from computeledger.facts.schema import PRECISION_BYTES

#: Shortest time of one sample, many calls in it where one is shorter [s] (a clock's grain is far below).
SAMPLE_S = 0.002
_MOST_CALLS = 500
#: Samples in a round of a case whose caches are driven out before each call.
_COLD_CALLS = 5
#: Rounds that are enough, and those at most; share of the budget in which cases are made.
ROUNDS, PREPARED_FRACTION = (5, 60), 0.6
#: Spread, median over least, beyond which the machine counts as busy.
BUSY_FRACTION = 0.10


@dataclass(frozen=True, slots=True)
class Measurement:
    """One case's result."""

    kind: str
    precision: str
    shape: Mapping[str, int]
    flop: float
    bytes: float
    time_s: float
    spread_fraction: float = 0.0


@dataclass(frozen=True, slots=True)
class Case:
    """One thing to time."""

    kind: str
    precision: str
    shape: Mapping[str, int]
    flop: float
    bytes: float
    call: Callable[[], object]
    captured: bool = True
    before: Callable[[], object] | None = None


@dataclass(frozen=True, slots=True)
class Scale:
    """Sizes that suit a device: the weights of a case together exceed its last cache several times."""

    tokens: tuple[int, ...]
    stream_bytes: float
    heads: tuple[tuple[int, int, int], ...]
    prompts: tuple[int, ...]
    contexts: tuple[int, ...]
    batches: tuple[int, ...]
    layers: tuple[LayerShape, ...]


CPU_SCALE = Scale(
    tokens=(1, 4, 12, 48, 128, 384),
    stream_bytes=128e6,
    heads=((12, 12, 64), (16, 4, 64)),
    prompts=(48, 96, 192, 384, 768),
    contexts=(96, 384, 1536),
    batches=(1, 6),
    layers=(LayerShape(768, 12, 12, 64, 3072), LayerShape(1536, 16, 4, 64, 4096)),
)
#: Holds about 25 GB of weights and caches at once.
GPU_SCALE = Scale(
    tokens=(1, 8, 32, 64, 128, 256, 1024, 4096),
    stream_bytes=512e6,
    heads=((32, 32, 128), (32, 8, 128)),
    prompts=(1024, 4096, 16384),
    contexts=(1024, 8192, 32768),
    batches=(1, 16),
    layers=(LayerShape(4096, 32, 8, 128, 14336), LayerShape(8192, 64, 8, 128, 28672)),
)
TINY = LayerShape(64, 1, 1, 64, 64)


def _in_turn(call: Callable[[Any], object], items: list[Any]) -> Callable[[], object]:
    """A call that takes the next item each time, so that none is still in a cache."""
    place = -1

    def next_one() -> object:
        nonlocal place
        place = (place + 1) % len(items)
        return call(items[place])

    return next_one


def _copies(one_bytes: float, scale: Scale) -> range:
    return range(max(1, min(512, round(scale.stream_bytes / one_bytes))))


def gemm_cases(kernels: Kernels, scale: Scale) -> Iterator[Case]:
    """Matrix products over shapes and precisions, weights cold."""
    for precision in kernels.precisions:
        value_bytes = VALUE_BYTES[precision]
        # what no profile has a factor for is compared by its peak: one layer is enough
        layers = (
            scale.layers if precision in PRECISION_BYTES or precision == kernels.precisions[0] else scale.layers[:1]
        )
        for inner, outer in (pair for layer in layers for pair in layer.products):
            weights = [kernels.random((outer, inner), precision) for _ in _copies(inner * outer * value_bytes, scale)]
            for tokens in scale.tokens:
                x = kernels.random((tokens, inner), precision)
                yield Case(
                    "gemm",
                    precision,
                    {"tokens": tokens, "inner": inner, "outer": outer},
                    2.0 * tokens * inner * outer,
                    inner * outer * value_bytes,
                    _in_turn(lambda weight, x=x: kernels.linear(x, weight), weights),  # type: ignore[misc]
                )


def memory_cases(kernels: Kernels, scale: Scale) -> Iterator[Case]:
    """Copying and reading an array that exceeds the last cache."""
    precision = kernels.precisions[-1]  # the widest: plain vector loads
    values = round(scale.stream_bytes / VALUE_BYTES[precision])
    source, target = (kernels.random((values,), precision) for _ in range(2))
    size, shape = values * VALUE_BYTES[precision], {"values": values}
    yield Case("copy", precision, shape, 0.0, 2 * size, lambda: kernels.copy(target, source))
    yield Case("read", precision, shape, 0.0, size, lambda: kernels.total(source))


def attention_cases(kernels: Kernels, scale: Scale) -> Iterator[Case]:
    """Causal attention over a prompt, and of one query per head over a cold cache."""
    precision = kernels.precisions[0]
    value_bytes = VALUE_BYTES[precision]
    for n, k, h in scale.heads:
        for tokens in scale.prompts:
            query, keys, values = (kernels.random((1, heads, tokens, h), precision) for heads in (n, k, k))
            yield Case(
                "prefill attention",
                precision,
                {"batch": 1, "tokens": tokens, "heads": n, "kv_heads": k, "head_dim": h},
                4.0 * n * h * tokens * (tokens + 1) / 2,
                2 * tokens * k * h * value_bytes,
                lambda one=(query, keys, values): kernels.attend(*one, causal=True),  # type: ignore[misc]
            )
        for context in scale.contexts:
            for batch in scale.batches:
                size = 2 * batch * context * k * h * value_bytes
                caches = [
                    [kernels.random((batch, k, context, h), precision) for _ in "kv"] for _ in _copies(size, scale)
                ]
                query = kernels.random((batch, n, 1, h), precision)
                yield Case(
                    "decode attention",
                    precision,
                    {"batch": batch, "tokens": context, "heads": n, "kv_heads": k, "head_dim": h},
                    4.0 * batch * n * h * context,
                    size,
                    _in_turn(lambda kv, query=query: kernels.attend(query, *kv, causal=False), caches),  # type: ignore[misc]
                )


def layer_cases(kernels: Kernels, scale: Scale) -> Iterator[Case]:
    """What a layer does between its products, and the floors of a tiny layer and of a step around it."""
    precision = kernels.precisions[0]
    sizes = [(shape, tokens) for shape in scale.layers for tokens in scale.tokens[-3:]]
    for shape, tokens in [(TINY, 1), *sizes]:
        layer = Layer(kernels, shape, tokens)
        asked = {"tokens": tokens, "width": shape.width, "heads": shape.n_heads, "kv_heads": shape.n_kv_heads,
                 "head_dim": shape.head_dim, "mlp_width": shape.mlp_width}  # fmt: skip
        yield Case("elementwise", precision, asked, 0.0, 0.0, layer.elementwise)
    yield from _floor_cases(kernels, scale)


def _floor_cases(kernels: Kernels, scale: Scale) -> Iterator[Case]:
    """A tiny layer and the step around it; on a CPU a layer's weights pass the caches before, as they do in a model."""
    precision, d = kernels.precisions[0], TINY.width
    tiny, one = Layer(kernels, TINY, 1), {"tokens": 1, "width": d}
    mixer, mlp = (
        [kernels.random(size[::-1], precision) for size in pair] for pair in (TINY.products[:2], TINY.products[2:])
    )
    table = kernels.random((256, d), precision)
    before = None
    if kernels.device == "cpu" and scale.layers:
        weights = [sum(inner * outer for inner, outer in layer.products) for layer in scale.layers]
        blocks = [kernels.random((round(statistics.geometric_mean(weights)),), precision) for _ in range(3)]
        before = _in_turn(kernels.total, blocks)

    def step() -> None:
        kernels.choose(kernels.linear(kernels.norm(table[3:4], tiny.scale), table))

    calls = {"mixer floor": lambda: tiny.mixer(mixer), "mlp floor": lambda: tiny.mlp(mlp), "step floor": step}
    for kind, call in calls.items():
        yield Case(kind, precision, one, 0.0, 0.0, call, captured=kind != "step floor", before=before)
    if kernels.device == "cuda":
        both = Case("layer launch", precision, one, 0.0, 0.0, lambda: (tiny.mixer(mixer), tiny.mlp(mlp)))
        yield replace(both, captured=False)


@dataclass(frozen=True, slots=True)
class _Timed:
    case: Case
    calls: int
    call: Callable[[], object]
    once_s: float
    samples: list[float]


@dataclass(frozen=True, slots=True)
class Measured:
    """What was measured in a budget of time, and whether every case was."""

    cases: list[Measurement]
    is_complete: bool


def measure(
    kernels: Kernels,
    scale: Scale,
    budget_s: float,
    progress: Callable[[float], None] = lambda _done: None,
    clock: Callable[[], float] = time.perf_counter,
) -> Measured:
    """Time cases in interleaved rounds until the budget is used, whatever the load of the machine.

    The clock is asked before every case is made and before every sample. What a profile cannot do without is measured
    even then, once each; cases that the budget leaves no time for are left out.
    """
    start, (least, most) = clock(), ROUNDS
    timed, is_complete = _prepared(kernels, scale, lambda: clock() - start < PREPARED_FRACTION * budget_s)
    for round_number in range(most):
        for one in timed:
            if clock() - start >= budget_s:
                break
            for _ in range(_COLD_CALLS if one.case.before else 1):
                if one.case.before:
                    one.case.before()
                one.samples.append(kernels.seconds(one.call) / one.calls)
        spent = (clock() - start) / budget_s if budget_s else 1.0
        progress(min(spent, (round_number + 1) / least, 1.0))
        if spent >= 1:
            break
    progress(1.0)
    return Measured([_measurement(one) for one in timed], is_complete)


def _prepared(kernels: Kernels, scale: Scale, has_time: Callable[[], bool]) -> tuple[list[_Timed], bool]:
    """Cases made and called once, one of each maker in turn; after the time for it only those that a fit lacks."""
    timed: list[_Timed] = []
    lacking = {kind: n for needed in _MAKERS.values() for kind, n in needed.items()}
    makers = {maker: maker(kernels, scale) for maker in _MAKERS}
    is_complete = True
    while makers:
        for maker in list(makers):
            is_cut = not has_time()
            if is_cut and not any(lacking.get(kind) for kind in _MAKERS[maker]):
                is_complete = is_complete and next(makers[maker], None) is None
                del makers[maker]
                continue
            case = next(makers[maker], None)
            if case is None:
                del makers[maker]
            elif is_cut and not lacking.get(case.kind):
                is_complete = False
            else:
                timed.append(_timed(kernels, case))
                lacking[case.kind] = max(lacking.get(case.kind, 0) - 1, 0)
    return timed, is_complete


def _timed(kernels: Kernels, case: Case) -> _Timed:
    kernels.seconds(case.call)
    once = min(kernels.seconds(case.call) for _ in range(2))
    calls = 1 if case.before else max(1, round(SAMPLE_S / max(once, SAMPLE_S / _MOST_CALLS)))
    return _Timed(case, calls, kernels.repeated(case.call, calls, case.captured), once, [])


#: Makers of cases, and the measurements of each kind that a profile cannot do without.
_MAKERS: Mapping[Callable[[Kernels, Scale], Iterator[Case]], Mapping[str, int]] = {
    gemm_cases: {"gemm": 1},
    memory_cases: {"copy": 1, "read": 1},
    attention_cases: {"prefill attention": 1, "decode attention": 1},
    layer_cases: {"elementwise": 2, "mixer floor": 1, "mlp floor": 1, "step floor": 1},
}


def _measurement(one: _Timed) -> Measurement:
    case, samples = one.case, one.samples or [one.once_s]
    least = min(samples)
    spread = statistics.median(samples) / least - 1 if least > 0 else 0.0
    low = statistics.quantiles(samples, n=4)[0] if len(samples) > 1 else least
    return Measurement(case.kind, case.precision, case.shape, case.flop, case.bytes, low, spread)


def spread_fraction(measurements: list[Measurement]) -> float:
    """How far the median time lies above the least, in the middle of all cases."""
    return statistics.median(one.spread_fraction for one in measurements)


def load_torch() -> Any:
    """PyTorch, loaded when it is to be measured and never before."""
    try:
        import torch  # noqa: PLC0415 (half a second and 200 MB, for this command only)
    except ImportError:
        raise InputError("--backend torch: PyTorch is not installed; install it, or use --backend numpy") from None
    return torch


def choose_kernels(backend: str, device: str, threads: int | None) -> Kernels:
    """The library to measure with."""
    count = threads or default_threads()
    if backend == "torch" or (backend == "auto" and find_spec("torch") is not None):
        torch = load_torch()
        gpu = torch.cuda.is_available()
        if device == "cuda" and not gpu:
            raise InputError("--device cuda: PyTorch finds no GPU here; use cpu")
        return torch_kernels(torch, "cuda" if gpu and device != "cpu" else "cpu", count)
    if device == "cuda":
        raise InputError("--device cuda: NumPy runs on the CPU only; install PyTorch for the GPU")
    if count != default_threads():
        raise InputError(f"--threads {count}: NumPy's threads are set before it starts: OMP_NUM_THREADS={count}")
    return numpy_kernels(count)
