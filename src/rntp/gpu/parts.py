"""The measurements, each a generator of rows: what was measured before a failure or the end of its time is kept.

A row says what was measured, of which model, at which setting; what it is held against is found afterwards.
"""

from __future__ import annotations

import importlib.util
import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import torch

from computeledger.actuals.recording.work import forward_work
from computeledger.facts.huggingface import parse_config
from computeledger.physics.transformer import n_params_active
from computeledger.questions.answers.calibrate import answer_calibrate
from computeledger.questions.calibrate import CalibrateQuestion
from rntp.gpu.budget import Deadline
from rntp.gpu.device import Device, measured_machine, sheet_of
from rntp.gpu.settings import CALIBRATION, MACHINE, Point, Settings, Shape
from rntp.head import CACHE

#: Forward passes whose FLOP a training step has: its own, and two of the backward pass.
_PASSES = 3
#: Rounds of a point of decoding or prefill, after one that warms up; the median counts.
ROUNDS = 3
DECODE, PREFILL, STEP, MFU, MEMORY = "decode step", "prefill", "training step", "MFU", "peak memory"


@dataclass(frozen=True, slots=True)
class Row:
    """Something measured and the setting it depends on; or a note, such as what was left out."""

    part: str
    model: str = ""
    quantity: str = ""
    value: float = 0.0
    unit: str = ""
    setting: dict[str, float | str] = field(default_factory=dict)
    note: str = ""


@dataclass(frozen=True, slots=True)
class Job:
    """What a part is given."""

    settings: Settings
    device: Device
    output: Path
    deadline: Deadline


Rows = Iterator[Row]


@dataclass(frozen=True, slots=True)
class Part:
    """A measurement: its name, its share of the time, and what makes its rows."""

    name: str
    share: float
    rows: Callable[[Job, Shape], Rows]


def calibrate_rows(job: Job, _shape: Shape) -> Rows:
    """Measure products, memory, attention and launches, and write the machine's profile.

    Parameters
    ----------
    job : Job
        The device, the folder, and the end of the time.

    Yields
    ------
    Row
        Peaks of products and of memory.
    """
    answer = answer_calibrate(
        CalibrateQuestion(
            name=MACHINE, write=str(job.output / CALIBRATION), backend="torch", device=job.device.device.type,
            budget=min(job.settings.calibrate_s, 0.8 * job.deadline.left_s), accelerator=sheet_of(job.device.device),
        )
    )  # fmt: skip
    for precision, peak in answer.fit.peak_flop_per_s.items():
        yield Row("calibrate", "", f"products, {precision}", peak, "FLOP/s", {"precision": precision})
    yield Row("calibrate", "", "memory", answer.fit.hbm_bytes_per_s, "B/s")
    if answer.warning:
        yield Row("calibrate", note=answer.warning)


def _vocabulary(model: Any) -> int:
    return int(model.config.vocab_size)


def _fitting(points: tuple[Point, ...], deadline: Deadline, part: str, model: str) -> Iterator[Point]:
    """Points while there is time, as long as the longest before; then what was left out."""
    longest, begun = 0.0, deadline.left_s
    for number, point in enumerate(points):
        if not deadline.allows(longest):
            raise _OutOfTimeError(
                Row(part, model, note=f"left out for lack of time: the last {len(points) - number} points")
            )
        yield point
        longest, begun = max(longest, begun - deadline.left_s), deadline.left_s


class _OutOfTimeError(Exception):
    """The time of a part is up; holds the row that says what was left out."""

    def __init__(self, row: Row) -> None:
        super().__init__(row.note)
        self.row = row


def _median(rounds: int, seconds: Callable[[], float]) -> float:
    """Median of some rounds behind one that warms up."""
    seconds()
    return statistics.median(seconds() for _ in range(rounds))


def serving_rows(job: Job, shape: Shape) -> Rows:
    """Measure prefill passes and decode steps of ``transformers`` in bf16, batch after batch.

    Parameters
    ----------
    job : Job
        The device, the sizes, and the end of the time.
    shape : Shape
        The model.

    Yields
    ------
    Row
        Seconds of a pass over prompts, or of a step that gives each sequence a token.
    """
    model = job.device.model(shape.folder(job.output), torch.bfloat16).eval()
    with torch.inference_mode():
        try:
            for point in _fitting(job.settings.prefill, job.deadline, "serving", shape.name):
                ids = job.device.tokens(_vocabulary(model), point.batch, point.tokens)
                value = _median(ROUNDS, lambda ids=ids: job.device.seconds(lambda: _prefill(model, ids)))  # type: ignore[misc]
                yield _serving_row(shape, PREFILL, value, point, 0)
            for point in _fitting(job.settings.decode, job.deadline, "serving", shape.name):
                ids = job.device.tokens(_vocabulary(model), point.batch, point.tokens)
                steps = job.settings.decode_tokens
                value = _decode_s(model, job.device, ids, steps)
                yield _serving_row(shape, DECODE, value, point, steps)
        except _OutOfTimeError as error:
            yield error.row


def _serving_row(shape: Shape, quantity: str, value: float, point: Point, steps: int, engine: str = "") -> Row:
    """Setting of a point; a decoded sequence grows from its prompt by the steps that are timed."""
    name = engine or f"transformers {metadata.version('transformers')}"
    setting: dict[str, float | str] = {"batch": point.batch, "input_tokens": point.tokens, "engine": name}
    if quantity == DECODE:
        setting["output_tokens"] = steps
    return Row("vllm" if engine else "serving", shape.name, quantity, value, "s", setting)


def _prefill(model: Any, ids: torch.Tensor) -> Any:
    return model(input_ids=ids, use_cache=True, logits_to_keep=1)


def _decode_s(model: Any, device: Device, ids: torch.Tensor, steps: int) -> float:
    """Seconds of one greedy step behind prompts: the median of rounds of so many steps, each behind its own prefill."""

    def once() -> float:
        out = _prefill(model, ids)

        def many() -> None:
            cache, logits = out[CACHE], out.logits
            for _ in range(steps):
                token = logits[:, -1].argmax(dim=-1, keepdim=True)
                logits = model(input_ids=token, use_cache=True, **{CACHE: cache}).logits

        return device.seconds(many) / steps

    return _median(ROUNDS, once)


def training_rows(job: Job, shape: Shape) -> Rows:
    """Measure a step of next-token training: forward, backward, AdamW; bf16 products, float32 weights and moments.

    Parameters
    ----------
    job : Job
        The device, the sizes, and the end of the time.
    shape : Shape
        The model.

    Yields
    ------
    Row
        Seconds, MFU and peak memory of a step.
    """
    device, settings = job.device, job.settings
    model = device.model(shape.folder(job.output), torch.float32).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6, fused=device.is_cuda)
    ids = device.tokens(_vocabulary(model), shape.train_sequences, settings.train_tokens)

    def step() -> None:
        with device.autocast():
            loss = model(input_ids=ids, labels=ids, use_cache=False).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    times: list[float] = []
    device.seconds(step)  # warms up: kernels are chosen, moments made
    device.peak_bytes()
    while len(times) < settings.train_steps and job.deadline.allows(max(times, default=0.0)):
        times.append(device.seconds(step))
    peak_bytes = device.peak_bytes()
    setting: dict[str, float | str] = {
        "sequences": shape.train_sequences, "sequence_tokens": settings.train_tokens, "steps": len(times),
    }  # fmt: skip
    if not times:
        yield Row("training", shape.name, note="left out for lack of time: all behind the step that warms up")
        return
    step_s = statistics.median(times)
    yield Row("training", shape.name, STEP, step_s, "s", setting)
    peak = measured_machine(device.device, job.output).peak_flop_per_s
    lengths = np.full(shape.train_sequences, float(settings.train_tokens))
    flop = _PASSES * forward_work(parse_config(shape.configuration(), shape.name), lengths).flop
    if peak:
        yield Row("training", shape.name, MFU, flop / step_s / peak, "", setting)
    if peak_bytes is not None:
        yield Row("training", shape.name, MEMORY, peak_bytes, "B", setting)


def vllm_rows(job: Job, shape: Shape) -> Rows:
    """Measure vLLM where it is installed: random weights, decoding by the difference of two lengths.

    Parameters
    ----------
    job : Job
        The device, the sizes, and the end of the time.
    shape : Shape
        The model.

    Yields
    ------
    Row
        Seconds of a prefill and of a decode step.
    """
    if importlib.util.find_spec("vllm") is None:
        yield Row("vllm", shape.name, note="left out: vllm is not installed")
        return
    settings, vocabulary = job.settings, int(shape.configuration()["vocab_size"])
    longest = max(point.tokens for point in (*settings.decode, *settings.prefill))
    vllm = importlib.import_module("vllm")
    engine = vllm.LLM(
        model=str(shape.folder(job.output)), load_format="dummy", skip_tokenizer_init=True, dtype="bfloat16",
        max_model_len=longest + 2 * settings.decode_tokens, gpu_memory_utilization=0.8, enable_prefix_caching=False,
    )  # fmt: skip
    name = f"vllm {metadata.version('vllm')}"

    def seconds(point: Point, tokens: int) -> float:
        chosen = vllm.SamplingParams(temperature=0.0, max_tokens=tokens, ignore_eos=True, detokenize=False)
        rows = job.device.tokens(vocabulary, point.batch, point.tokens).tolist()
        prompts = [{"prompt_token_ids": ids} for ids in rows]
        return job.device.seconds(lambda: engine.generate(prompts, chosen, use_tqdm=False))

    steps = settings.decode_tokens
    try:
        for point in _fitting(settings.prefill, job.deadline, "vllm", shape.name):
            yield _serving_row(shape, PREFILL, _median(ROUNDS, lambda point=point: seconds(point, 1)), point, 0, name)  # type: ignore[misc]
        for point in _fitting(settings.decode, job.deadline, "vllm", shape.name):
            more, fewer = (_median(ROUNDS, lambda n=n, point=point: seconds(point, n)) for n in (2 * steps, steps))  # type: ignore[misc]
            grown = replace(point, tokens=point.tokens + steps)  # the sequences whose steps the difference is
            yield _serving_row(shape, DECODE, max(more - fewer, 0.0) / steps, grown, steps, name)
    except _OutOfTimeError as error:
        yield error.row


def parameters_of(shape: Shape) -> int:
    """Count the active parameters of a model by the planner's formulas.

    Parameters
    ----------
    shape : Shape
        The model.

    Returns
    -------
    int
        Parameters [-].

    Examples
    --------
    >>> from rntp.gpu.settings import REAL
    >>> [round(parameters_of(one) / 1e9, 2) for one in REAL.shapes]
    [0.49, 1.54]
    """
    return n_params_active(parse_config(shape.configuration(), shape.name))
