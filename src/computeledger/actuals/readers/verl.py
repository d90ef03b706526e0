"""verl metrics, as the console prints them and as the file logger writes them (JSONL): an RL step by phase.

Prompt and response tokens of a step follow from its total and the mean lengths; GPUs from the throughput per GPU that
verl states, or from the trainer's configuration at the head of the console.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from computeledger.actuals.readers.framework_timers import framework_timers, step_times
from computeledger.actuals.readers.steps import Line, placed
from computeledger.actuals.readers.tally import ROUNDING, Hints, Tally, amount, known_devices
from computeledger.actuals.run_ledger import Entry
from computeledger.errors import InputError
from computeledger.files import parse_json

TOOL = "verl log"
MARK = re.compile(rb"timing_s/\w+")

_TIMERS = framework_timers("verl")
_PREFIX = "timing_s/"

_CONSOLE = re.compile(r"(?:^|[\s)])step:(\d+) - (.*)$")
_RANK = re.compile(r"\((\w+)(?: pid=(\d+))?")
_CONFIG = re.compile(r"'(n_gpus_per_node|nnodes)': (\d+)")
#: The policy's is the first path of the settings, which are printed in alphabetical order.
_MODEL = re.compile(r"'path': '([^']+)'")
#: Most of a line is of these, and tells nothing of time or tokens.
_OTHER_METRICS = ("actor/", "critic/", "reward/", "env/", "val-", "timing_per_token_ms/", "training/")
_WANTED = frozenset(
    {*_TIMERS.phases, _TIMERS.step_s, "perf/total_num_tokens", "perf/throughput",
     "perf/time_per_step", "global_seqlen/mean", "response_length/mean", "response_length/max", "prompt_length/mean",
     "perf/mfu/actor", "mfu/actor"}
)  # fmt: skip


def entries(lines: Iterable[tuple[int, str]], hints: Hints, tally: Tally) -> Iterator[Entry]:
    """Read metrics."""
    for one in placed(_reports(lines, hints, tally), tally):
        step, attempt, run = one.line.step, one.attempt, hints.run
        devices, sampled, total, *durations = one.line.values
        for phase, duration_s in zip(_SUMMED, durations, strict=True):
            if not duration_s:
                continue
            tokens: dict[str, float] = {}
            if phase == "generation":
                tokens = {"input": total - sampled, "sampled": sampled}
            elif phase == "update":
                tokens = {"trained": total}
            yield Entry(run, "rl", phase, duration_s, int(devices), step, attempt, tokens)


_SUMMED = (*dict.fromkeys(_TIMERS.phases.values()), "idle")


def _reports(lines: Iterable[tuple[int, str]], hints: Hints, tally: Tally) -> Iterator[Line]:
    config: dict[str, int] = {}
    for number, text in lines:
        if "timing_s/" not in text:
            if "'path'" in text:
                tally.trains(text, _MODEL)
            if "nnodes" in text or "n_gpus_per_node" in text:
                config |= {name: int(size) for name, size in _CONFIG.findall(text)}
            elif "step:" in text and _CONSOLE.search(text) and " - " in text:
                tally.damage("cut off before its times", number)
            continue
        found = _metrics(text)
        if isinstance(found, str):
            tally.damage(found, number)
            continue
        step, metrics, rank = found
        world = config["n_gpus_per_node"] * config.get("nnodes", 1) if "n_gpus_per_node" in config else None
        figures = _figures(metrics, _gpus(metrics, world, hints), tally, number)
        if isinstance(figures, str):
            tally.damage(figures, number)
            continue
        yield Line(number, step, rank, text, None, figures)


def _metrics(text: str) -> tuple[int, dict[str, float], str] | str:
    """Step, metrics and printer of a line; or what is wrong with it."""
    if text.lstrip().startswith("{"):
        return _file_metrics(text)
    found = _CONSOLE.search(text)
    if found is None:
        return "cut off before its step"
    if text.count("timing_s/step:") > 1 or " step:" in found[2]:
        return "two lines in one"
    metrics = {}
    for part in found[2].split(" - "):
        if part.startswith(_OTHER_METRICS):
            continue
        name, _, value = part.partition(":")
        is_time = name[:9] == "timing_s/"
        if name in _WANTED or (is_time and "/" not in name[9:]):
            number = amount(value.removeprefix("np.float64(").rstrip(") ") if value[-1:] in ") " else value)
            if number is None and is_time:
                return "a time that is no number"
            if number is not None:
                metrics[name] = number
    who = _RANK.search(text, 0, found.start() + 1)
    return int(found[1]), metrics, who[0] if who else ""


def _file_metrics(text: str) -> tuple[int, dict[str, float], str] | str:
    try:
        document = parse_json(text, "")
    except InputError:
        return "not JSON: cut off or spliced"
    data = document.get("data", document) if isinstance(document, dict) else None
    step = document.get("step") if isinstance(document, dict) else None
    if not isinstance(data, dict) or not isinstance(step, int):
        return "no step and data in it"
    wanted = {name: value for name, value in data.items() if name.startswith("timing_s/") or name in _WANTED}
    metrics = {}
    for name, value in wanted.items():
        number = amount(str(value)) if isinstance(value, int | float) else None
        if number is None and name.startswith("timing_s/"):
            return "a time that is no number"
        if number is not None:
            metrics[name] = number
    return step, metrics, ""


def _gpus(metrics: Mapping[str, float], world: int | None, hints: Hints) -> tuple[int, int]:
    """GPUs of the step, and those that the log states, 0 where it states none.

    Tokens over its time and throughput per GPU count, where all three agree on a whole number.
    """
    total, rate = metrics.get("perf/total_num_tokens"), metrics.get("perf/throughput")
    time_s = metrics.get("perf/time_per_step") or metrics.get("timing_s/step")
    told: float | None = None
    if total and rate and time_s:
        told = total / (rate * time_s)
        told = told if abs(told / max(round(told), 1) - 1) < ROUNDING - 1 else None
    own = told if world is None and hints.devices is None else world
    return known_devices(own, hints, "the verl log"), round(world or told or 0)


def _figures(metrics: Mapping[str, float], gpus: tuple[int, int], tally: Tally, number: int) -> tuple[float, ...] | str:
    """Step, GPUs, tokens and the time of each phase; or what is wrong."""
    devices, stated = gpus
    found = step_times(_TIMERS, metrics)
    if isinstance(found, str):
        return found
    for name in metrics:
        if name.startswith(_PREFIX) and name not in (*_TIMERS.phases, _TIMERS.step_s) and name.count("/") == 1:
            timer = name.removeprefix(_PREFIX)
            tally.remark(f"verl's timer {timer} is none of the phases: its time is not told apart", number)
    if found.overlap:
        tally.remark("phases that overlap: scaled to the time of their step", number)
    times = {phase: found.by_phase.get(phase, 0.0) for phase in _SUMMED}
    response, prompt = metrics.get("response_length/mean", 0.0), metrics.get("prompt_length/mean", 0.0)
    total = metrics.get("perf/total_num_tokens") or metrics.get("global_seqlen/mean", 0.0) * devices
    if not total or not response:
        return "cut off before its tokens"
    if mfu := metrics.get("perf/mfu/actor", metrics.get("mfu/actor", 0.0)):
        tally.observe("mfu_fraction", mfu)
    if longest := metrics.get("response_length/max"):
        tally.observe("tpot_s", times["generation"] / longest)
    tally.state(response, prompt, round(total / (response + prompt)), float(stated))
    return (float(devices), total * response / (response + prompt), total, *times.values())
