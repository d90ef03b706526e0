"""What ``serve`` predicts of a deployment at the load that it sees, and what one change of a setting would do."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from computeledger.arrays import median
from computeledger.errors import DoesNotFitError, InputError
from computeledger.facts.schema import PRECISION_BYTES
from computeledger.physics.transformer import kv_bytes_per_sequence
from computeledger.questions.answer import Quantity
from computeledger.questions.answers.serving.answer import ServeAnswer, answer_one_pool
from computeledger.questions.answers.serving.document import main_bound
from computeledger.questions.answers.watch.deployment import Deployment
from computeledger.workloads.questions.serve import ServeQuestion

#: How far a load may move from the one that was predicted before it is predicted anew (assumption) [-].
MOVED_FRACTION = 0.1
#: Time between two predictions at least: each takes tens of milliseconds (assumption) [s].
PREDICTION_PAUSE_S = 30.0
#: Time between two looks at other settings, each of which is a prediction (assumption) [s].
LEVERS_PAUSE_S = 300.0
#: The change that helps only those who wait.
HIGHER_LIMIT = "a higher limit of sequences"


@dataclass(frozen=True, slots=True)
class Load:
    """What a server is asked, on average.

    Attributes
    ----------
    batch : float
        Sequences in flight at once: read, or decoding [-].
    input_tokens, cached_tokens, output_tokens : float
        Of a request: read anew, found in a cache, generated [token].
    """

    batch: float
    input_tokens: float
    cached_tokens: float
    output_tokens: float

    @property
    def sequences(self) -> int:
        """Sequences in flight that are predicted: a server that works has one at least [-]."""
        return max(round(self.batch), 1)

    def is_near(self, other: Load) -> bool:
        """Whether a prediction of the other load still holds.

        Examples
        --------
        >>> Load(40.0, 1000.0, 0.0, 200.0).is_near(Load(41.0, 1010.0, 0.0, 201.0))
        True
        >>> Load(40.0, 1000.0, 0.0, 200.0).is_near(Load(60.0, 1000.0, 0.0, 200.0))
        False
        """
        pairs = (
            (self.sequences, other.sequences),
            (self.input_tokens + self.cached_tokens, other.input_tokens + other.cached_tokens),
            (self.output_tokens, other.output_tokens),
        )
        return all(abs(one - two) <= MOVED_FRACTION * max(one, two) for one, two in pairs)


@dataclass(frozen=True, slots=True)
class Prediction:
    """A deployment at a load.

    Attributes
    ----------
    load : Load
        That was predicted.
    tpot_s, ttft_s, output_tokens_per_s : Quantity
        Of the server at that load.
    kv_used_fraction : float
        Share of the cache that its sequences fill, half of their output written [-].
    kv_capacity_tokens : float
        Tokens that the cache has room for [token].
    chip_w : float
        Power that a chip is designed for [W].
    bound : str
        What its decode step waits for.
    layout : str
        Of the server.
    n_gpus : int
        Its GPUs [-].
    engine : str
        Whose constants count.
    """

    load: Load
    tpot_s: Quantity
    ttft_s: Quantity
    output_tokens_per_s: Quantity
    kv_used_fraction: float
    kv_capacity_tokens: float
    chip_w: float
    bound: str
    layout: str
    n_gpus: int
    engine: str


@dataclass(frozen=True, slots=True)
class Lever:
    """One change, and what it does.

    Attributes
    ----------
    name : str
        The change, in words.
    setting : str
        How ``serve`` and ``watch`` spell it.
    tpot_ratio, output_ratio, capacity_ratio, gpus_ratio : float
        Time per token, output per GPU, tokens that the cache holds, and GPUs, with the change over without [-].
    """

    name: str
    setting: str
    tpot_ratio: float
    output_ratio: float
    capacity_ratio: float
    gpus_ratio: float


def predict(deployment: Deployment, load: Load) -> Prediction:
    """Predict a deployment at a load.

    Examples
    --------
    >>> from computeledger.workloads.questions.serve import ServeQuestion
    >>> served = Deployment(ServeQuestion(model="llama-3.1-8b", system="h100-nvl8", layout="tp1", samples=64))
    >>> light, heavy = (predict(served, Load(batch, 1000.0, 0.0, 200.0)) for batch in (4.0, 64.0))
    >>> light.tpot_s.p50 < heavy.tpot_s.p50, heavy.kv_used_fraction / light.kv_used_fraction
    (True, 16.0)
    """
    answer = _answered(deployment.question, load)
    result, scenario = answer.result, answer.result.scenario
    kv_bytes = PRECISION_BYTES[scenario.precision.kv]
    read = load.input_tokens + load.cached_tokens
    full, held = (
        float(median(kv_bytes_per_sequence(scenario.model, read + share * load.output_tokens, kv_bytes)))
        for share in (1.0, 0.5)
    )
    filled = median(result.memory.kv_cache_bytes) * (held / full if full else 1.0)
    room = median(result.memory.cache_bytes)
    per_sequence = filled / load.sequences
    rate = result.output_tokens_per_s_per_gpu * answer.layout.n_gpus * load.batch / load.sequences
    return Prediction(
        load=load,
        tpot_s=answer.tpot_s,
        ttft_s=answer.ttft_s,
        output_tokens_per_s=Quantity.of(rate, "tokens/s"),
        kv_used_fraction=filled / room,
        kv_capacity_tokens=room / per_sequence * (read + 0.5 * load.output_tokens) if per_sequence else 0.0,
        chip_w=float(answer.setting.system.accelerator.chip_tdp_w.value),
        bound=main_bound(result.decode),
        layout=str(answer.layout),
        n_gpus=int(answer.layout.n_gpus),
        engine=deployment.question.engine,
    )


def check_deployment(deployment: Deployment) -> None:
    """Refuse what can be predicted at no load; whether it fits is told at the load that is seen.

    Examples
    --------
    >>> check_deployment(Deployment(ServeQuestion(model="llama-3.1-8b", system="h100-nvl8", layout="tp3")))
    Traceback (most recent call last):
    computeledger.errors.LayoutError: layout tp3: 32 attention heads of ... cannot be divided 3 ways; tp must divide 32
    """
    with contextlib.suppress(DoesNotFitError):
        predict(deployment, Load(1.0, 1.0, 0.0, 1.0))


def levers(deployment: Deployment, now: Prediction) -> tuple[Lever, ...]:
    """Try changes one at a time at the load of a prediction; what cannot run is left out, what gains most is first."""
    found = []
    for name, setting, changed in _changes(deployment.question, now):
        more = 2.0 if "batch" in changed else 1.0
        load = replace(now.load, batch=more * now.load.sequences)
        try:
            other = predict(replace(deployment, question=_with(deployment.question, changed)), load)
        except InputError:
            continue
        tpot_ratio = other.tpot_s.p50 / now.tpot_s.p50
        gpus_ratio = other.n_gpus / now.n_gpus
        room_ratio = other.kv_capacity_tokens / now.kv_capacity_tokens
        found.append(Lever(name, setting, tpot_ratio, more / tpot_ratio / gpus_ratio, room_ratio, gpus_ratio))
    return tuple(sorted(found, key=lambda one: -one.output_ratio))


def _answered(question: ServeQuestion, load: Load) -> ServeAnswer:
    asked = replace(
        question,
        batch=load.sequences,
        input_tokens=max(load.input_tokens, 1.0),
        cached_tokens=load.cached_tokens,
        output_tokens=max(load.output_tokens, 1.0),
    )
    return answer_one_pool(asked)


def _with(question: ServeQuestion, changed: Mapping[str, Any]) -> ServeQuestion:
    return replace(question, **{name: value for name, value in changed.items() if name != "batch"})


def _changes(question: ServeQuestion, now: Prediction) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Changes of a server that somebody could make today."""
    fixed = {"layout": now.layout}
    if question.kv_precision == "bf16":
        yield "KV cache in 8 bits", "--kv-precision fp8", {**fixed, "kv_precision": "fp8"}
    if question.precision in (None, "bf16"):
        yield "weights in 8 bits", "--precision fp8", {**fixed, "precision": "fp8"}
        yield "weights in 4 bits", "--precision int4", {**fixed, "precision": "int4"}
    yield "twice the sequences at once", HIGHER_LIMIT, {**fixed, "batch": 2}
    if now.layout.startswith("tp") and "-" not in now.layout:
        wider = f"tp{2 * int(now.layout[2:])}"
        yield f"twice the tensor parallelism ({wider})", f"--layout {wider}", {"layout": wider, "gpus": None}
