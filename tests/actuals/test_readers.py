"""Readers against figures of real runs, whole and damaged: what is lost is counted and named, what is left is right."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from computeledger.actuals.readers import trainer_state
from computeledger.actuals.readers.all_tools import read_actuals, reader_of
from computeledger.actuals.readers.tally import Hints, Tally
from computeledger.actuals.run_ledger import Entry, line_of
from computeledger.errors import InputError
from computeledger.units import KILO, TERA
from tests.actuals import samples

LEDGER = "".join(line_of(Entry("mine", "rl", "update", 2.0 + step, 8, step)) + "\n" for step in range(12))
HINTS = Hints(devices=16, sequence_tokens=4096, rollouts_per_step=4, duration_s=3600.0, workload="serving")
FREE = Hints(rollouts_per_step=4, duration_s=3600.0, workload="serving")

#: tool -> its sample and what its reader must be told
SAMPLES: dict[str, tuple[str, Hints]] = {
    "run ledger": (LEDGER, FREE),
    "verl log": (samples.verl_console(), FREE),
    "verl log, JSONL": (samples.verl_file(), FREE),
    "NeMo RL log": (samples.nemo_rl_console(), HINTS),
    "slime log": (samples.slime_console(), HINTS),
    "Megatron-LM log": (samples.megatron_log(), FREE),
    "torchtitan log": (samples.torchtitan_log(), FREE),
    "trainer_state.json": (samples.trainer_state(), HINTS),
    "SGLang benchmark result": (samples.sglang_result(), FREE),
    "vLLM benchmark result": (samples.vllm_result(), HINTS),
    "vLLM metrics": (samples.vllm_scrape(), HINTS),
    "GPU power log": (samples.power_csv(), FREE),
    "GPU power log, dmon": (samples.dcgm_text(), FREE),
}


def read(text: str | bytes, folder: Path, hints: Hints = HINTS) -> tuple[list[Entry], Tally]:
    """Entries and damage of a file with that content and a name that says nothing."""
    path = folder / "file"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    tally = Tally()
    return list(read_actuals(path, hints, tally)), tally


@pytest.mark.parametrize("tool", SAMPLES)
def test_tool_is_told_by_content(tool, tmp_path):
    text, hints = SAMPLES[tool]
    (tmp_path / "anything.bin").write_text(text)
    assert reader_of(tmp_path / "anything.bin").tool == tool.partition(",")[0]
    entries, tally = read(text, tmp_path, hints)
    assert entries and set(tally.damaged) <= {"no power in it"}


def test_megatron_figures_are_those_of_the_run(tmp_path):
    entries, tally = read(samples.megatron_log(), tmp_path, Hints())
    steps = [one for one in entries if one.phase == "step"]
    assert [one.step for one in steps] == list(range(82, 94)) and not tally.damaged and not tally.remarks
    assert sum(one.duration_s for one in steps) == pytest.approx(sum(ms for *_, ms in samples.MEGATRON) / KILO)
    assert {one.devices for one in steps} == {64} and {one.tokens_by_kind["trained"] for one in steps} == {64 * 4096}
    # the stamps of 12 lines span 126 s, the 11 iterations after the first 125.6 s: nothing was idle
    assert not [one for one in entries if one.phase == "idle"]


def test_megatron_counts_its_own_flop_and_says_what_is_missing(tmp_path):
    text = "\n".join(samples.megatron_line(step, ms, "", 2048, rate) for step, ms, rate in samples.CLOUDAI)
    entries, tally = read(text, tmp_path, Hints(devices=256, sequence_tokens=8192))
    first = entries[0]
    assert first.flop == pytest.approx(490.0 * TERA * 256 * 15.8)
    assert tally.observed["flop_per_s"].most == pytest.approx(500.6 * TERA)
    with pytest.raises(InputError, match="how many GPUs it held: give --gpus"):
        read(text, tmp_path, Hints(sequence_tokens=8192))
    with pytest.raises(InputError, match="how long a sequence is: give --sequence-tokens"):
        read(text, tmp_path, Hints(devices=256))
    # what the log says comes first
    assert {one.devices for one in read(samples.megatron_log(), tmp_path, Hints(devices=8))[0]} == {64}


MS, RATE = "elapsed time per iteration (ms)", "throughput per GPU (TFLOP/s/GPU)"
#: Line, s, batch, TFLOP/s, of the README of FlagAI-Open/OpenSeek; of a report of an Apertus run; as AMD Primus and
#: Megatron-DeepSpeed on Ascend print them
DIALECTS = [
    (f"[default0]: [2025-05-27 15:23:07] iteration   1/  24000 | {MS}: 271607.0 | {RATE}: 40.4 |",
     271.607, 1024, 40.4),
    (f"3:  [2026-05-29 03:52:45] iteration  1/ 300 | {MS}: 131064.1 | eta: 0:00 | {RATE}: 412.3 |",
     131.0641, 1024, 412.3),
    (f"\x1b[32m[20251202 09:12:08][rank-7/8] : iteration 1/ 5000 | {MS}: 13372.8/13364.7 | {RATE}: 567.6/568.0 |",
     13.3728, 128, 567.6),
    (f"iteration  1/50000 | consumed samples: 5632 | {MS}:  52728.1 |", 52.7281, 512, 0.0),
]  # fmt: skip


@pytest.mark.parametrize(("line", "elapsed_s", "batch", "tflops"), DIALECTS)
def test_dialects_of_megatron(line, elapsed_s, batch, tflops, tmp_path):
    size = f" {'gloabl' if not tflops else 'global'} batch size: {batch:5d} |\x1b[0m"
    (one,), tally = read(line + size, tmp_path, Hints(devices=8, sequence_tokens=2048))
    assert one.duration_s == pytest.approx(elapsed_s) and one.tokens_by_kind == {"trained": batch * 2048.0}
    assert (one.flop or 0.0) == pytest.approx(tflops * TERA * 8 * elapsed_s) and not tally.damaged


def test_torchtitan_rate_gives_back_the_clock(tmp_path):
    entries, tally = read(samples.torchtitan_log(), tmp_path, Hints())
    first, second = entries
    # 9 steps between the stamps 19:31:29.955 and 19:31:48.420
    assert second.duration_s == pytest.approx(48.420 - 29.955, rel=0.03) and second.tokens_by_kind == {
        "trained": 9 * 1280 * 128
    }
    assert first.devices == 8 and tally.observed["mfu_fraction"].most == pytest.approx(0.3738)
    assert second.flop == pytest.approx(841.08 * TERA * 8 * second.duration_s)


def test_verl_phases_and_idle_fill_the_step(tmp_path):
    entries, tally = read(samples.verl_console(), tmp_path, Hints())
    assert not tally.damaged and not tally.remarks
    for step, total, response, _, prompt, times in samples.VERL:
        mine = {one.phase: one for one in entries if one.step == step}
        assert sum(one.duration_s for one in mine.values()) == pytest.approx(times[-1])
        assert mine["generation"].tokens_by_kind["sampled"] == pytest.approx(32 * response, rel=1e-3)
        assert mine["update"].tokens_by_kind == {"trained": total} and total == pytest.approx(
            32 * (response + prompt), 1e-3
        )
        assert mine["log-probs"].duration_s == pytest.approx(times[1] + times[2])
    # the most honest bound on a decode step: generation over the longest response
    assert tally.observed["tpot_s"].least == pytest.approx(13.953 / 362)


def test_a_rate_and_a_time_say_how_large_a_step_is(tmp_path):
    line = "completed step: {}, seconds: 4.6, TFLOP/s/device: 407.0, Tokens/s/device: 7123.0, total_weights: 262144"
    found, _ = read("\n".join(line.format(step) for step in range(4)), tmp_path, Hints(devices=8))
    assert found and sum(sum(one.tokens_by_kind.values()) for one in found) == pytest.approx(4 * 7123.0 * 8 * 4.6)


def test_nemo_rl_phases_and_idle_fill_the_step(tmp_path):
    entries, tally = read(samples.nemo_rl_console(), tmp_path)
    assert not tally.damaged and not tally.remarks and {one.step for one in entries} == {1, 2, 3, 4}
    mine = {one.phase: one for one in entries if one.step == 2}
    assert sum(one.duration_s for one in mine.values()) == pytest.approx(samples.NEMO_RL_STEP_S)
    # an asynchronous step waits for rollouts; what has no phase of ours is idle
    assert {name: one.duration_s for name, one in mine.items()} == pytest.approx({
        "generation": 32.52, "update": 25.05, "log-probs": 4.78, "data": 0.23, "weight sync": 0.13,
        "idle": samples.NEMO_RL_STEP_S - 32.52 - 25.05 - 4.78 - 0.23 - 0.13,
    })  # fmt: skip
    assert mine["generation"].tokens_by_kind == {"sampled": 4 * 811.0}


def test_slime_joins_what_a_rollout_and_its_training_say(tmp_path):
    entries, tally = read(samples.slime_console(), tmp_path)
    assert not tally.damaged and {one.step for one in entries} == {0, 1, 2, 3}
    mine = {one.phase: one.duration_s for one in entries if one.step == 1}
    times = samples.SLIME
    moved_s = sum(times[f"perf/{name}_time"] for name in ("sleep", "update_weights", "wake_up"))
    assert mine["weight sync"] == pytest.approx(moved_s) and mine["update"] == times["perf/actor_train_time"]
    assert mine["generation"] == 335.0
    assert sum(mine.values()) == pytest.approx(times["perf/step_time"])
    # a rollout that ran beside the training: the step holds the part that the trainer waited for
    ahead = samples.slime_console().replace("'perf/rollout_time': 335.0", "'perf/rollout_time': 900.0")
    mine = {one.phase: one.duration_s for one in read(ahead, tmp_path)[0] if one.step == 1}
    assert mine["generation"] == pytest.approx(times["perf/train_wait_time"] - moved_s)


def test_verl_file_tells_its_gpus_from_the_throughput(tmp_path):
    entries, _ = read(samples.verl_file(), tmp_path, Hints())
    assert {one.devices for one in entries} == {8}
    first = {one.phase: one for one in entries if one.step == 1}
    assert first["idle"].duration_s == pytest.approx(
        1268.488 - (698.880 + 143.322 + 98.136 + 0.034 + 327.778), abs=1e-2
    )


def test_serving_benchmarks(tmp_path):
    (one,), tally = read(samples.vllm_result(), tmp_path)
    assert (one.workload, one.duration_s, one.devices) == ("serving", 156.629553565057, 16)
    assert one.tokens_by_kind == {"input": 1310720, "output": 1310720}
    assert tally.observed["tpot_s"].mean == pytest.approx(0.014871257)
    two, _ = read(samples.sglang_result(), tmp_path, Hints())
    assert len(two) == 2 and two[0].devices == 8
    pretty, _ = read(json.dumps(json.loads(samples.vllm_result()), indent=2), tmp_path)
    assert pretty == [one]
    with pytest.raises(InputError, match="contradict one another"):
        read(samples.vllm_result(total_output_tokens=9310720), tmp_path)


def test_counters_are_summed_over_a_restart(tmp_path):
    scrapes = [("100", "1000", "1700000000"), ("400", "3000", "1700000060"), ("50", "500", "1700000120")]
    text = "".join(samples.vllm_scrape(output, prompt, stamp) for output, prompt, stamp in scrapes)
    (one,), tally = read(text, tmp_path, Hints(devices=2))
    assert one.tokens_by_kind == {"input": 2000 + 500, "output": 300 + 50} and one.duration_s == 120.0
    assert "counters that began again: the server was restarted" in tally.remarks
    with pytest.raises(InputError, match="give --duration"):
        read(samples.vllm_scrape(), tmp_path, Hints(devices=2))


def test_trainer_state_keeps_no_more_than_the_record_that_is_open() -> None:
    """Text that belongs to no record is dropped as it comes: it was searched again with each line, for hours."""
    for text in ("x }", "{ x", '"log_history"', "} {"):
        lines = ((number, text) for number in range(1, 200_001))
        assert list(trainer_state.entries(lines, HINTS, Tally())) == []


def test_trainer_state_needs_times(tmp_path):
    entries, _ = read(samples.trainer_state(), tmp_path)
    assert [one.step for one in entries] == [5, 10, 15, 20, 25, 30] and {one.workload for one in entries} == {"rl"}
    assert entries[0].duration_s == 5 * 6.5 and entries[1].tokens_by_kind["trained"] == 42892 - 29865
    assert entries[0].tokens_by_kind["sampled"] == pytest.approx(472.05 * 4 * 5)
    shared, _ = read(samples.trainer_state(step_s=None, runtime_s=600.0), tmp_path)
    assert sum(one.duration_s for one in shared) == pytest.approx(600.0)
    with pytest.raises(InputError, match="holds no times"):
        read(samples.trainer_state(step_s=None), tmp_path)


def test_power_is_the_integral_of_its_samples(tmp_path):
    (one,), tally = read(samples.power_csv(), tmp_path)
    pairs = zip(samples.POWER[:-1], samples.POWER[1:], strict=True)
    assert one.energy_j == pytest.approx(sum((b[0] - a[0]) * (a[1] + b[1]) / 2 for a, b in pairs))
    assert one.duration_s == 0.0 and tally.observed["power_device_s"].total == pytest.approx(0.252)
    (two,), tally = read(samples.dcgm_text(), tmp_path)
    assert two.devices == 2 and two.energy_j == pytest.approx(121.0)
    assert tally.damaged["no power in it"].count == 1


def megatron(*lines: str) -> str:
    """A log of these lines."""
    return samples.megatron_head() + "\n".join(lines) + "\n"


def test_restart_repeats_steps_and_nothing_is_dropped_silently(tmp_path):
    line = samples.megatron_line
    text = megatron(
        *(line(step, 1000.0) for step in (1, 2, 3, 4)), *(line(step, 1000.0) for step in (3, 4, 5)),
        line(6, 1000.0)[:90], line(7, 1000.0), line(7, 1000.0), line(8, math.nan), line(9, 1000.0) + line(9, 1000.0),
    )  # fmt: skip
    entries, tally = read(text, tmp_path, Hints())
    assert [(one.step, one.attempt) for one in entries] == [
        (1, 0),
        (2, 0),
        (3, 0),
        (4, 0),
        (3, 1),
        (4, 1),
        (5, 1),
        (7, 1),
    ]
    assert set(tally.damaged) == {"cut off before its time", "its time is no number above 0", "two lines in one"}
    assert set(tally.remarks) == {
        "restart: the step went back", "the same step again", "steps before it that no readable line reports",
    }  # fmt: skip


def test_ranks_that_interleave_count_once(tmp_path):
    lines = [f"[rank{rank}]:{samples.megatron_line(step, 900.0 + rank)}" for step in (1, 2, 3) for rank in (0, 1)]
    entries, tally = read(megatron(*lines), tmp_path, Hints())
    assert [one.duration_s for one in entries] == [0.9, 0.9, 0.9]
    assert tally.remarks["the same step from another rank"].count == 3


def test_pauses_are_idle_and_clock_jumps_are_named(tmp_path):
    line = samples.megatron_line
    stamps = ["10:00:00", "10:00:10", "10:05:20", "10:05:30", "09:00:00", "09:00:10"]
    text = megatron(*(line(step, 10_000.0, clock) for step, clock in enumerate(stamps, 1)))
    entries, tally = read(text, tmp_path, Hints())
    assert [one.duration_s for one in entries if one.phase == "idle"] == [pytest.approx(300.0)]
    assert tally.remarks["the clock jumped back"].line == 5 + 5
    lines = [line(step, 10_000.0, f"10:00:{10 * step}") for step in range(1, 6)]
    lines[2] = lines[2][:80]
    entries, _ = read(megatron(*lines), tmp_path, Hints())
    assert [one.phase for one in entries] == ["step", "step", "other", "step", "step"]
    assert {one.duration_s for one in entries} == {10.0}


def test_a_log_interval_weighs_its_iterations(tmp_path):
    lines = [samples.megatron_line(step, 2000.0) for step in (10, 20, 40, 50)]
    entries, _ = read(megatron(*lines), tmp_path, Hints())
    assert [one.duration_s for one in entries] == [20.0, 20.0, 20.0, 20.0]


def test_no_tool_and_no_file(tmp_path):
    for content, words in (("", "the file is empty"), ("hello\n", "of no tool that is known here; known: run ledger")):
        (tmp_path / "x").write_text(content)
        with pytest.raises(InputError, match=words):
            reader_of(tmp_path / "x")
    with pytest.raises(InputError, match="is a folder, a file is needed"):
        reader_of(tmp_path)


def truncated(data: bytes, draw: np.random.Generator) -> tuple[bytes, set[int]]:
    """A file that ends early."""
    cut = int(draw.integers(1, len(data)))
    return data[:cut], {data[:cut].count(b"\n") + 1}


def flipped(data: bytes, draw: np.random.Generator) -> tuple[bytes, set[int]]:
    """A file with one bit turned."""
    place = int(draw.integers(len(data)))
    turned = bytes([data[place] ^ (1 << int(draw.integers(8)))])
    number = data[:place].count(b"\n") + 1
    return data[:place] + turned + data[place + 1 :], {number, number + 1}


def spliced(data: bytes, draw: np.random.Generator) -> tuple[bytes, set[int]]:
    """A file with a piece of itself put in somewhere else."""
    start, place = (int(one) for one in draw.integers(len(data), size=2))
    piece = data[start : start + int(draw.integers(1, 400))]
    before = data[:place].count(b"\n") + 1
    return data[:place] + piece + data[place:], set(range(before, before + piece.count(b"\n") + 2))


CORRUPTIONS: list[Callable[[bytes, np.random.Generator], tuple[bytes, set[int]]]] = [truncated, flipped, spliced]


#: tool -> lines of its sample that hold for all others, and entries that a line makes at most
SHAPES = {
    "run ledger": (0, 1), "verl log": (2, 6), "verl log, JSONL": (0, 6), "Megatron-LM log": (5, 2),
    "torchtitan log": (4, 2),
}  # fmt: skip


def survives(tool: str, seed: int, folder: Path) -> bool:
    """Whether a corrupted sample is read: right for what was not touched, or refused in one line."""
    text, hints = SAMPLES[tool]
    draw = np.random.default_rng([seed, *tool.encode()])
    broken, touched = CORRUPTIONS[seed % 3](text.encode(), draw)
    refused = ""
    try:
        entries, tally = read(broken, folder, hints)
    except InputError as error:
        refused = str(error)
    if refused:
        assert "\n" not in refused and len(refused) < 500
        return False
    assert all(math.isfinite(one.duration_s) and one.duration_s >= 0 for one in entries)
    head, per_line = SHAPES.get(tool, (math.inf, 0))
    if min(touched) > head:
        right = Counter(one.step for one in read(text, folder, hints)[0])
        same = {figures(one) for one in read(text, folder, hints)[0]}
        odd = [one for one in entries if figures(one) not in same]
        assert len(odd) <= per_line * len(touched), (odd, tally)
        lost = right - Counter(one.step for one in entries)
        assert seed % 3 == 0 or lost.total() <= per_line * len(touched), (lost, tally)
        named = tally.damaged.keys() | tally.remarks.keys()
        assert named or odd or seed % 3 == 0 or not lost, "lost without a word"
    return True


def figures(one: Entry) -> tuple[object, ...]:
    """What an entry says, but for how often the run was started before it."""
    return (one.phase, one.step, one.devices, one.duration_s, tuple(one.tokens_by_kind.items()), one.flop)


@pytest.mark.parametrize("tool", SAMPLES)
def test_corruptions_are_survived(tool, tmp_path):
    assert sum(survives(tool, seed, tmp_path) for seed in range(30)) > 0


@pytest.mark.stress
@pytest.mark.parametrize("tool", SAMPLES)
def test_a_thousand_corruptions_are_survived(tool, tmp_path):
    assert sum(survives(tool, seed, tmp_path) for seed in range(1000)) > 0


def test_verl_tests_beside_the_step_are_evaluation_and_take_nothing_from_the_step(tmp_path):
    seen = {"timing_s/step": 100.0, "timing_s/gen": 60.0, "timing_s/update_actor": 38.0, "timing_s/testing": 70.0}
    sizes = {"perf/total_num_tokens": 1e6, "prompt_length/mean": 100.0, "response_length/mean": 900.0}
    entries, tally = read(json.dumps({"step": 20, "data": seen | sizes}), tmp_path, Hints(devices=8))
    assert {one.phase: one.duration_s for one in entries} == {
        "generation": 60.0, "update": 38.0, "evaluation": 70.0, "idle": 2.0,
    }  # fmt: skip
    assert not tally.remarks and not tally.damaged
