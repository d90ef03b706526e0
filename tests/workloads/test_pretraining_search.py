"""The training search: every legal configuration, schedules played out, adapters, anchors, launch arguments."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from computeledger.arrays import sample
from computeledger.errors import InputError
from computeledger.facts.architecture import Lora
from computeledger.facts.load import load_model, load_system
from computeledger.physics.adapters import adapter_params
from computeledger.physics.calibration.training import load_all_factors, training_efficiency
from computeledger.physics.goodput import Reliability
from computeledger.physics.parallelism import Layout, check_layout, parse_layout
from computeledger.physics.roofline import Machine, Precision, parse_precision
from computeledger.physics.training.batch import BUBBLE_RATIOS as SHARES
from computeledger.physics.training.batch import Batch, Stack
from computeledger.workloads.anchor import AnchorKey, parse_anchor
from computeledger.workloads.pretraining.advice import advise, fits, remedies, what_binds
from computeledger.workloads.pretraining.candidates import Limits, candidates
from computeledger.workloads.pretraining.estimate import PretrainingScenario, batch_sequences, estimate_pretraining
from computeledger.workloads.pretraining.launches import Job, launch
from computeledger.workloads.pretraining.megatron import stage_layout
from computeledger.workloads.pretraining.pipeline import SCHEDULES, bubble_ratio, passes, scheduled, with_schedule
from computeledger.workloads.pretraining.scaling import counts_around, larger_domain, margins, scale
from computeledger.workloads.pretraining.search import chosen, evaluate
from computeledger.workloads.pretraining.step_working import step_working
from computeledger.workloads.pretraining.timeline import Pipeline, timeline

LLAMA, V3, H100 = load_model("llama-3.1-8b"), load_model("deepseek-v3"), load_system("h100-nvl8")
MACHINE = Machine(H100, training=training_efficiency())


def scenario(sequences: float = 256.0, model=LLAMA, layout: Layout | None = None, **batch) -> PretrainingScenario:
    return PretrainingScenario(model, layout or Layout(), Precision(), Batch(4096.0, sequences, **batch), 1e12)


def test_every_candidate_is_legal_and_unique() -> None:
    every = candidates(scenario(1920.0, V3), 128, Limits(8, schedules=SCHEDULES))
    rows = np.column_stack([getattr(every, name) for name in every.__dataclass_fields__])
    assert len(np.unique(rows, axis=0)) == every.size
    per_rank = 1920 / every.dp / every.microbatch_sequences
    assert np.all(per_rank == np.floor(per_rank))
    assert np.all(every.tp * every.pp * every.dp * every.cp == 128)
    for row in range(0, every.size, 37):
        check_layout(Layout(*(int(getattr(every, name)[row]) for name in ("tp", "pp", "dp", "cp", "ep"))), V3, 128)
    interleaved = every.virtual_stages > 1
    assert np.all(per_rank[interleaved] % every.pp[interleaved] == 0)
    assert np.all((every.pp * every.virtual_stages <= V3.n_layers)[interleaved])


def test_the_best_of_a_sweep_is_the_best_of_all_points() -> None:
    """Each candidate by itself, through the call of a single answer."""
    one, limits = scenario(64.0), Limits(8, schedules=SCHEDULES)
    every = candidates(one, 16, limits)
    swept = evaluate(one, every, MACHINE)
    rows = np.random.default_rng(0).choice(every.size, 25, replace=False)
    for row in rows:
        alone = estimate_pretraining(chosen(one, swept.option(int(row))), MACHINE)
        assert float(alone.step_s) == pytest.approx(swept.step_s[row])
        assert float(alone.memory.total_bytes) == pytest.approx(swept.memory_bytes[row])
    best = swept.best(1)[0]
    assert best.step_s == swept.step_s[swept.fits].min()


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 8), st.integers(1, 6), st.integers(1, 4))
def test_played_out_pipelines_end_when_the_closed_form_says(stages: int, rounds: int, pieces: int) -> None:
    """1F1B and interleaved: m + (p - 1) / v turns."""
    pieces = pieces if stages > 1 else 1
    micro = stages * rounds
    drawn = timeline(Pipeline("1f1b", stages, micro, pieces, passes("none"), 3.0), whole=True)
    assert drawn.end_s == pytest.approx(3.0 * (micro + (stages - 1) / pieces))
    assert len(drawn.bars) == 2 * micro * pieces * stages
    by_stage = [sorted((bar.start_s, bar.end_s) for bar in drawn.bars if bar.stage == one) for one in range(stages)]
    for spans in by_stage:
        assert all(end <= start + 1e-9 for (_, end), (start, _) in pairwise(spans))


@pytest.mark.parametrize(("stages", "micro"), [(4, 8), (8, 24), (4, 16)])
def test_a_zero_bubble_pipeline_ends_when_its_formula_says(stages: int, micro: int) -> None:
    """DeepSeek-V3 report, table 2: ZB1P idles (PP - 1)(F + B - 2 W)."""
    split = passes("none")
    drawn = timeline(Pipeline("zero-bubble", stages, micro, 1, split, 3.0), whole=True)
    idle = 3.0 * (stages - 1) * float(bubble_ratio("zero-bubble", stages, split))
    assert drawn.end_s == pytest.approx(3.0 * micro + idle)


@pytest.mark.parametrize(("stages", "micro"), [(4, 8), (8, 20), (16, 32)])
def test_a_dual_pipeline_ends_when_its_formula_says(stages: int, micro: int) -> None:
    """DeepSeek-V3 report, table 2: DualPipe idles (PP / 2 - 1)(F&B + B - 3 W); every pass runs once, none at once."""
    split = passes("none")
    drawn = timeline(Pipeline("dualpipe", stages, micro, 2, split, 3.0), whole=True)
    idle = 3.0 * (stages - 1) * float(bubble_ratio("dualpipe", stages, split))
    assert drawn.end_s == pytest.approx(3.0 * micro + idle)
    for stage in range(stages):
        mine = sorted((bar for bar in drawn.bars if bar.stage == stage), key=lambda bar: bar.start_s)
        assert sum(bar.end_s - bar.start_s for bar in mine) == pytest.approx(3.0 * micro)
        assert all(one.end_s <= after.start_s + 1e-9 for one, after in pairwise(mine))
        for kind in ("forward", "backward"):
            assert sorted(bar.microbatch for bar in mine if bar.kind == kind) == list(range(micro))


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("rounds", [2, 3])
def test_a_picture_without_its_steady_middle_has_the_whole_bubble(schedule: str, rounds: int) -> None:
    split, stages, micro = passes("none"), 8, 64
    drawn = timeline(Pipeline(schedule, stages, micro, 1, split, 3.0), rounds=rounds)
    assert drawn.left_out > 0 and drawn.n_microbatches + drawn.left_out == micro
    idle = 3.0 * (stages - 1) * float(bubble_ratio(schedule, stages, split))
    assert drawn.end_s - 3.0 * drawn.n_microbatches == pytest.approx(idle)


def test_a_dual_pipeline_that_does_not_run_is_refused() -> None:
    with pytest.raises(InputError, match="at least two for each stage"):
        timeline(Pipeline("dualpipe", 8, 12, 2, passes("none"), 3.0))


def test_dualpipe_is_the_published_formula() -> None:
    """DeepSeek-V3 report, table 2, and DualPipe's README at 89f5de1: (PP / 2 - 1)(F&B + B - 3 W); F = W = 1, B = 2."""
    assert float(bubble_ratio("dualpipe", 16, passes("none"))) == pytest.approx(7 * (3 + 2 - 3) / (15 * 3))
    plain = estimate_pretraining(scenario(64.0, layout=Layout(pp=16)), MACHINE)
    step = scheduled(plain.step, with_schedule(plain.scenario.batch, "dualpipe"), Layout(pp=16))
    one = float(plain.step.bubble_s) / 15
    assert float(step.bubble_s) == pytest.approx(one * 7 * 2 / 3 / SHARES["dualpipe"])


def piped(name: str) -> PretrainingScenario:
    one = scenario(64.0, layout=Layout(pp=8))
    return replace(one, batch=with_schedule(one.batch, name))


def test_a_sweep_of_schedules_keeps_order() -> None:
    steps = {name: float(estimate_pretraining(piped(name), MACHINE).step_s) for name in SCHEDULES}
    assert steps["zero-bubble"] < steps["1f1b"] and steps["dualpipe"] < steps["1f1b"]


def test_margins_cancel_what_both_share() -> None:
    """A common factor of the step changes no margin; the winner's own margin is 1."""
    one = scenario(64.0)
    options = evaluate(one, candidates(one, 16, Limits(8)), MACHINE).best(3)
    drawn = sample({f"efficiency.{name}": factor.value for name, factor in load_all_factors().items()}, 64)
    ratio = drawn["efficiency.training_unseen_ratio"]
    shared = Machine(H100, training=replace(training_efficiency(), training_unseen_ratio=ratio))
    first, second, _ = margins(one, options, shared)
    assert np.allclose(first.step_ratio, 1.0)
    assert float(np.ptp(second.step_ratio)) < 0.01
    assert first.level


def test_scaling() -> None:
    one, rest = scenario(1024.0), (MACHINE, Reliability(5e-9), Limits(8))
    strong = scale(one, counts_around(64, 2), *rest)
    weak = scale(one, counts_around(64, 2), *rest, weak=True)
    assert [row.n_gpus for row in strong] == [16, 32, 64, 128, 256]
    assert np.all(np.diff([row.elapsed_s for row in strong]) < 0)
    assert [row.global_batch_tokens / row.n_gpus for row in weak] == [weak[0].global_batch_tokens / 16] * 5
    assert strong[2].elapsed_s == pytest.approx(weak[2].elapsed_s)
    assert all(row.elapsed_s > 0 and row.gpu_hours < np.inf for row in strong)


def test_a_larger_domain_never_hurts_and_helps_a_small_batch() -> None:
    one = PretrainingScenario(load_model("llama-3.1-70b"), Layout(), Precision(), Batch(8192.0, 32.0), 1e12)
    here = evaluate(one, candidates(one, 1024, Limits(8)), MACHINE).best(1)[0]
    there = evaluate(one, candidates(one, 1024, Limits(64)), larger_domain(MACHINE, 64)).best(1)[0]
    assert there.step_s < 0.9 * here.step_s
    assert there.layout.tp * there.layout.cp > 8


def test_adapters() -> None:
    """Rank 16 on every matrix of Llama-3.1-8B: 32 x 16 x 81,920 = 41,943,040 parameters; 4 N FLOP instead of 6 N."""
    assert adapter_params(LLAMA, Lora(16)) == 41_943_040
    full = estimate_pretraining(scenario(64.0, layout=Layout(dp=8), recompute="none"), Machine(H100))
    lora = replace(full.scenario, lora=Lora(8))
    tuned = estimate_pretraining(lora, Machine(H100))
    assert 0.64 < float(tuned.flop_per_token / full.flop_per_token) < 0.72
    assert 0.62 < float(tuned.step_s / full.step_s) < 0.75
    assert float(tuned.memory.optimizer_bytes) < 0.01 * float(full.memory.optimizer_bytes)
    assert tuned.mfu_fraction <= tuned.hfu_fraction <= 1


def test_working_adds_up_and_respects_the_limit() -> None:
    one = scenario(64.0, V3, parse_layout("tp2-pp4-dp8-ep8"), recompute="full")
    result = estimate_pretraining(one, MACHINE)
    working = step_working(result, MACHINE)
    times = {row.name: float(np.median(row.time_s)) for row in working.operations}
    assert sum(times.values()) == pytest.approx(working.step_s)
    assert sum(working.phase_s.values()) == pytest.approx(working.step_s)
    assert working.limit_s < working.step_s
    for row in working.operations:
        assert row.limit_fraction is None or 0 < row.limit_fraction <= 1
        assert not row.phases or sum(row.phases.values()) == pytest.approx(1)
    exchange = next(row for row in working.operations if row.name == "all-to-all")
    assert exchange.hidden_s > exchange.exposed_s > 0
    assert sum(what_binds(result).values()) == pytest.approx(1)


def test_advice_is_true() -> None:
    """What is promised comes out when it is done."""
    one = scenario(32.0, layout=Layout(pp=8), recompute="full")
    now = estimate_pretraining(one, MACHINE)
    advice = {item.change: item.gain_fraction for item in advise(one, MACHINE, Limits(8))}
    then = estimate_pretraining(replace(one, batch=replace(one.batch, recompute="selective")), MACHINE)
    assert advice["recompute selective"] == pytest.approx(float(now.step_s / then.step_s) - 1)
    assert all(gain >= 0.01 for gain in advice.values())


def test_remedies_fit() -> None:
    one = scenario(64.0, layout=Layout(dp=8))
    assert not fits(one, MACHINE)
    found = remedies(one, MACHINE, Limits(8))
    assert found
    for remedy in found:
        assert fits(chosen(one, remedy.option), MACHINE)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("speed", "expected key=value"),
        ("sped=3", "did you mean 'speed'"),
        ("speed=fast", "not a number"),
        ("speed=0", "greater than 0"),
        ("speed=1..2", "expected one number"),
        ("speed=1, speed=2", "given twice"),
        ("time=3 parsec", "unknown unit"),
    ],
)
def test_an_anchor_that_is_wrong_says_so_in_one_line(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        parse_anchor(text, {"speed": AnchorKey("count"), "time": AnchorKey("s", "s")})
    assert "\n" not in str(caught.value)


def test_rounded_batches_divide() -> None:
    for wanted, sequence in ((16e6, 8192), (4e6, 4096), (60e6, 4096), (1e6, 2048), (3e5, 4096)):
        count = batch_sequences(wanted, sequence)
        assert abs(count * sequence / wanted - 1) < 0.07
        assert count < 16 or count % (2 ** (count.bit_length() - 4)) == 0


#: Names in megatron/training/arguments.py and in the configuration classes that its parser is built from, at commit
#: d98e8a6 (2026-08-22).
MEGATRON = """tensor-model-parallel-size sequence-parallel pipeline-model-parallel-size pipeline-model-parallel-layout
num-virtual-stages-per-pipeline-rank context-parallel-size expert-model-parallel-size expert-tensor-parallel-size
use-megatron-fsdp data-parallel-sharding-strategy use-distributed-optimizer overlap-grad-reduce overlap-param-gather
seq-length max-position-embeddings micro-batch-size global-batch-size train-samples recompute-granularity
recompute-modules recompute-method recompute-num-layers bf16 fp8-format fp8-recipe fp4-format use-mcore-models
transformer-impl num-layers hidden-size ffn-hidden-size num-attention-heads group-query-attention num-query-groups
kv-channels multi-latent-attention q-lora-rank kv-lora-rank qk-head-dim qk-pos-emb-head-dim v-head-dim normalization
position-embedding-type disable-bias-linear attention-dropout hidden-dropout moe-expert-capacity-factor fp4-recipe
 swiglu untie-embeddings-and-output-weights num-experts moe-router-topk
moe-ffn-hidden-size moe-shared-expert-intermediate-size moe-layer-freq moe-grouped-gemm moe-token-dispatcher-type
mtp-num-layers use-precision-aware-optimizer exp-avg-dtype exp-avg-sq-dtype optimizer optimizer-cpu-offload
optimizer-offload-fraction overlap-cpu-optimizer-d2h-h2d fine-grained-activation-offloading offload-modules"""


@pytest.mark.parametrize(
    ("model", "layout", "batch", "expected"),
    [
        ("llama-3.1-405b", "tp8-pp16-dp8", {"virtual_stages": 1.0}, {"--num-query-groups": "8"}),
        ("llama-3.1-8b", "tp1-dp8", {"sharded_weights": True}, {"--use-megatron-fsdp": ""}),
        ("llama-3.1-8b", "tp1-dp8", {"stack": Stack(optimizer="muon")}, {"--optimizer": "muon"}),
        (
            "llama-3.1-8b",
            "tp1-dp8",
            {"stack": Stack(offload="activations,optimizer")},
            {"--optimizer-cpu-offload": "", "--offload-modules": "core_attn attn_proj"},
        ),
        (
            "qwen3-30b-a3b",
            "tp2-dp8-ep8",
            {"recompute": "full"},
            {"--moe-router-topk": "8", "--recompute-num-layers": "1"},
        ),
        (
            "deepseek-v3",
            "pp16-dp8-ep64",
            {"stack": Stack(mtp_layers=1)},
            {"--kv-lora-rank": "512", "--num-experts": "256", "--mtp-num-layers": "1"},
        ),
    ],
)
def test_launch_arguments_exist_and_say_the_layout(model, layout, batch, expected) -> None:
    one = PretrainingScenario(
        load_model(model), parse_layout(layout), parse_precision("fp8"), Batch(4096.0, 1024.0, **batch), 1e12
    )
    arguments = dict(launch("megatron", one, Job(8)).arguments)
    assert {name.removeprefix("--") for name in arguments} <= set(MEGATRON.split())
    assert arguments.items() >= expected.items()
    said = " ".join(launch("megatron", one, Job(8)).remarks)
    assert "--rotary-base" in said and ("--moe-router-score-function" in said) == ("--num-experts" in arguments)
    world = int(one.layout.tp) * int(one.layout.pp)
    assert int(arguments["--tensor-model-parallel-size"]) * int(arguments["--pipeline-model-parallel-size"]) == world


def test_uneven_pipelines_name_every_layer_once() -> None:
    for pieces in (2, 8, 16, 31):
        text = stage_layout(V3, pieces, 1)
        assert text.count("m") == 1 and "m" not in stage_layout(V3, pieces)
        assert text.count("t") == V3.n_layers and text.count("|") == pieces - 1
        assert text.startswith("E") and text.endswith("L")
        assert np.ptp([len(part) for part in text.split("|")]) <= 1


def test_a_schedule_that_megatron_lacks_is_refused() -> None:
    with pytest.raises(InputError, match="no zero-bubble schedule"):
        launch("megatron", piped("zero-bubble"), Job(8))
