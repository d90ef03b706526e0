"""Ledgers from other people's loops: real trainers on a CPU, metrics of verl and NeMo-RL, a loop of one's own."""

from __future__ import annotations

import json
import time
from importlib import util
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from torch.utils.flop_counter import FlopCounterMode
from transformers import (
    PreTrainedTokenizerFast,
    Qwen3Config,
    Qwen3ForCausalLM,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)

import computeledger as cl
from computeledger.actuals.readers.all_tools import read_actuals
from computeledger.actuals.readers.tally import Hints, Tally
from computeledger.actuals.run_ledger import Entry, line_of, read_ledger
from computeledger.actuals.run_summary import summary
from rntp.deferred import TRACKERS, deferred
from tests.actuals import samples
from tests.gates import ROOT

with deferred(TRACKERS):  # 5 s of processor time
    from trl import GRPOConfig, GRPOTrainer
    from trl.extras import profiling

CHARACTERS = {one: number for number, one in enumerate(["<pad>", "<eos>", *map(chr, range(32, 127))])}
SHAPE = Qwen3Config(
    vocab_size=len(CHARACTERS), hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2,
    num_key_value_heads=1, head_dim=16, eos_token_id=1, pad_token_id=0, bos_token_id=None,
)  # fmt: skip
WIDTH = 48


def model() -> Any:
    """Random weights; attention that torch's counter sees."""
    torch.manual_seed(0)
    made: Any = Qwen3ForCausalLM(SHAPE)
    made.set_attn_implementation("eager")
    return made


def rows(count: int) -> list[dict[str, list[int]]]:
    """Pieces of a page, of lengths that differ."""
    text = [CHARACTERS.get(one, 2) for one in (ROOT / "CONTRIBUTING.md").read_text("utf-8")]
    pieces = [text[WIDTH * n : WIDTH * (n + 1) - n % 7] for n in range(count)]
    return [{"input_ids": one, "labels": one} for one in pieces]


def padded(batch: list[dict[str, list[int]]]) -> dict[str, torch.Tensor]:
    """A batch as wide as its longest row."""
    width = max(len(one["input_ids"]) for one in batch)
    fills = {"input_ids": 0, "labels": -100}
    out = {name: [one[name] + [fill] * (width - len(one[name])) for one in batch] for name, fill in fills.items()}
    out["attention_mask"] = [[1] * len(one["input_ids"]) + [0] * (width - len(one["input_ids"])) for one in batch]
    return {name: torch.tensor(value) for name, value in out.items()}


def stop_in_the_fifth_step() -> Any:
    """A callback that breaks a run off."""
    made: Any = TrainerCallback()

    def broken_off(_args: Any, state: Any, *_: Any, **_kwargs: Any) -> None:
        if state.global_step == 4:
            raise KeyboardInterrupt

    made.on_pre_optimizer_step = broken_off
    return made


def trainer(folder: Path, *more: Any, ledger: Any = None, **settings: Any) -> Trainer:
    args = TrainingArguments(
        str(folder), max_steps=6, per_device_train_batch_size=2, gradient_accumulation_steps=2, use_cpu=True,
        report_to=[], disable_tqdm=True, save_steps=3, include_num_input_tokens_seen="non_padding", **settings,
    )  # fmt: skip
    callback = ledger or cl.trainer_callback(folder / "run.jsonl", run="tiny")
    given: dict[str, Any] = {"train_dataset": rows(24), "eval_dataset": rows(4), "data_collator": padded}
    return Trainer(model(), args, callbacks=[callback, *more], **given)


def total(entries: tuple[Entry, ...], kind: str) -> float:
    return sum(one.tokens_by_kind.get(kind, 0.0) for one in entries)


def test_a_trainers_ledger_is_what_the_trainer_and_torch_count(tmp_path: Path) -> None:
    outside = time.perf_counter()
    real = trainer(tmp_path)
    with FlopCounterMode(display=False) as counter:
        real.train()
    outside = time.perf_counter() - outside
    entries = read_ledger(tmp_path / "run.jsonl").entries
    assert total(entries, "trained") == real.state.num_input_tokens_seen
    assert sum(one.executed_flop or 0.0 for one in entries) == pytest.approx(counter.get_total_flops(), rel=0.03)
    assert sum(one.sequences or 0.0 for one in entries) == 6 * 4
    assert {"forward-backward", "optimizer", "data", "checkpoint"} <= {one.phase for one in entries}
    assert {one.step for one in entries if one.phase == "checkpoint"} == {3, 6}
    assert real.state.log_history[-1]["train_runtime"] * 0.5 < sum(one.duration_s for one in entries) <= outside
    assert len({(one.step, one.phase) for one in entries}) == len(entries)
    assert not real.model._forward_pre_hooks


def test_evaluation_has_its_time_and_its_passes(tmp_path: Path) -> None:
    trainer(tmp_path, eval_strategy="steps", eval_steps=3).train()
    evaluated = [one for one in read_ledger(tmp_path / "run.jsonl").entries if one.phase == "evaluation"]
    assert [(one.step, one.sequences) for one in evaluated] == [(3, 4.0), (6, 4.0)]
    assert all(one.flop and not one.tokens_by_kind for one in evaluated)


def test_a_run_that_is_broken_off_leaves_a_ledger_that_the_next_attempt_goes_on_in(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    with pytest.raises(KeyboardInterrupt):
        trainer(tmp_path, stop_in_the_fifth_step()).train()
    assert {one.step for one in read_ledger(path).entries if one.phase == "forward-backward"} == {1, 2, 3, 4}
    with path.open("ab") as stream:
        stream.write(line_of(Entry("tiny", "pretraining", "data", 1.0, step=5)).encode()[:40])
    resumed = trainer(tmp_path)
    resumed.train(resume_from_checkpoint=str(tmp_path / "checkpoint-3"))
    reading = read_ledger(path)
    assert len(reading.damaged) == 1
    assert {one.step for one in reading.entries if one.attempt == 1 and one.phase == "forward-backward"} == {4, 5, 6}
    out = summary(reading.entries)
    assert out["steps"] == 6 and out["repeated_gpu_hours"] > 0
    kept = [one for one in reading.entries if (one.step or 0) != 4 or one.attempt]
    assert total(tuple(kept), "trained") == resumed.state.num_input_tokens_seen


def test_only_the_first_process_writes(tmp_path: Path) -> None:
    callback = cl.trainer_callback(tmp_path / "run.jsonl")
    state = SimpleNamespace(is_world_process_zero=False, global_step=0, num_input_tokens_seen=0)
    callback.on_train_begin(SimpleNamespace(), state, None, model=model())
    callback.on_step_begin(None, state, None)
    callback.on_step_end(None, state, None)
    callback.on_train_end(None, state, None)
    assert list(tmp_path.iterdir()) == []


def test_a_ledger_is_begun_anew_where_that_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.write_text(line_of(Entry("older", "pretraining", "step", 1.0)) + "\n")
    trainer(tmp_path, ledger=cl.trainer_callback(path, overwrite=True)).train()
    assert {one.run for one in read_ledger(path).entries} == {"run"}


@pytest.mark.parametrize(("accumulated", "per_generation"), [(2, 2), (1, 2)])
def test_grpo_by_phase_is_what_trl_logs(
    tmp_path: Path, accumulated: int, per_generation: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_DISABLE_TELEMETRY", "1")
    monkeypatch.setattr(GRPOTrainer, "_send_telemetry", lambda self: None)
    pad, end = list(CHARACTERS)[:2]
    made = Tokenizer(models.WordLevel(CHARACTERS, unk_token=pad))
    made.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    args = GRPOConfig(
        str(tmp_path), max_steps=4, per_device_train_batch_size=4, num_generations=4, report_to=[], use_cpu=True,
        bf16=False, gradient_accumulation_steps=accumulated, steps_per_generation=per_generation, logging_steps=1,
        max_completion_length=8, disable_tqdm=True, save_strategy="no", gradient_checkpointing=False,
    )  # fmt: skip
    theirs = profiling.ProfilingContext
    real = GRPOTrainer(
        model(), [lambda completions, **_: [float(len(one)) for one in completions]], args,
        train_dataset=Dataset.from_list([{"prompt": one} for one in ("a cat", "the longer question", "b") * 8]),
        processing_class=PreTrainedTokenizerFast(tokenizer_object=made, pad_token=pad, eos_token=end),
        callbacks=[cl.trainer_callback(tmp_path / "run.jsonl")],
    )  # fmt: skip
    real.train()
    assert profiling.ProfilingContext is theirs
    entries = read_ledger(tmp_path / "run.jsonl").entries
    generated = {one.step: one for one in entries if one.phase == "generation"}
    key = "completions/mean_length"
    logged = {one["step"]: 4 * per_generation * one[key] for one in real.state.log_history if one.get(key)}
    assert {step: one.tokens_by_kind["sampled"] for step, one in generated.items()} == pytest.approx(logged)
    assert total(entries, "sampled") + total(entries, "input") == pytest.approx(real.state.num_input_tokens_seen)
    phases = {"generation", "verification", "update", "data"} | (
        {"log-probs"} if accumulated < per_generation else set()
    )
    assert phases <= {one.phase for one in entries}
    assert sum(one.sequences or 0.0 for one in entries if one.phase == "update") == 4 * 4 * accumulated


def test_the_road_from_a_plan_over_a_run_to_the_next_plan(tmp_path: Path) -> None:
    trainer(tmp_path).train()
    (tmp_path / "config.json").write_text(json.dumps(SHAPE.to_dict()))
    plan = tmp_path / "plan.toml"
    plan.write_text(
        f'model = "{tmp_path / "config.json"}"\nsystem = "h100-nvl8"\nprice = "$2/h"\n'
        '[pretraining]\ntokens = "1000 tokens"\nutilization = "30%"\n[rl]\nskip = "none"\n[inference]\nskip = "none"\n'
    )
    answer = cl.reconcile(str(plan), [str(tmp_path / "run.jsonl")], calibration=str(tmp_path / "next.toml"))
    answer.write_calibration()
    took = answer.phases["pretraining"]
    trained = total(read_ledger(tmp_path / "run.jsonl").entries, "trained")
    assert took.actual.tokens == trained
    again = cl.plan(str(plan), calibration=str(tmp_path / "next.toml"), samples=64)
    reached = again.to_dict()["phases"]["pretraining"]["utilization_fraction"]
    assert reached["p50"] == pytest.approx(took.actual.utilization_fraction, rel=0.1)


def test_rl_is_settled_by_phase_as_planned_and_as_logged(tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(
        'model = "Qwen/Qwen3-8B"\nsystem = "h100-nvl8"\nprice = "$2/h"\n'
        '[rl]\ntokens = "10M tokens"\ngpus = 16\nframework = "verl"\nprompts_per_step = 128\ngroup_size = 8\n'
        'rollout = "900 tokens"\nprompt = "200 tokens"\n[pretraining]\nskip = "-"\n[inference]\nskip = "-"\n'
    )
    times = {"gen": 31.0, "old_log_prob": 6.0, "update_actor": 25.0, "update_weights": 3.0, "step": 70.0}
    with cl.FrameworkLogger(tmp_path / "run.jsonl", "verl", devices=16) as logger:
        sizes = {"perf/total_num_tokens": 1024 * 1100.0, "prompt_length/mean": 200.0, "response_length/mean": 900.0}
        for step in range(4):
            logger.log({f"timing_s/{name}": value for name, value in times.items()} | sizes, step)
    answer = cl.reconcile(str(plan), [str(tmp_path / "run.jsonl")])
    one = answer.phases["rl"]
    assert one.actual.tokens == pytest.approx(4 * 1024 * 900)
    assert sum(one.planned_parts.values()) == pytest.approx(one.budget.gpu_hours + one.gpu_hours.volume)
    assert set(one.planned_parts) <= {"generation", "log-probs", "update", "weight sync", "idle", "verification"}
    (table,) = (table for table in answer.view().tables if "by phase" in table.title)
    assert {row[0] for row in table.rows} >= {"generation", "log-probs", "update", "weight sync", "idle"}
    assert answer.to_dict()["phases"]["rl"]["planned_parts"]["update"]["gpu_hours"] == one.planned_parts["update"]


def test_verl_metrics_become_what_the_reader_makes_of_verls_log(tmp_path: Path) -> None:
    log = tmp_path / "verl.jsonl"
    log.write_text(samples.verl_file())
    read = list(read_actuals(log, Hints(run="run"), Tally()))
    with cl.FrameworkLogger(tmp_path / "run.jsonl", "verl") as logger:
        for line in log.read_text().splitlines():
            logger.log(data=json.loads(line)["data"], step=json.loads(line)["step"])
    written = read_ledger(tmp_path / "run.jsonl").entries
    assert {(one.step, one.phase, one.devices): one.duration_s for one in written} == pytest.approx(
        {(one.step, one.phase, one.devices): one.duration_s for one in read}
    )
    for kind in ("input", "sampled", "trained"):
        assert total(written, kind) == pytest.approx(total(tuple(read), kind))


#: What grpo_train of NeMo-RL gives its loggers at the end of a step, with the names of the commit that is stated.
NEMO_STEP = (
    ({"total_validation_time": 20.0}, "timing/validation"),
    ({"total_num_tokens": 1.2e6, "mean_prompt_length": 150.0, "mean_gen_tokens_per_sample": 900.0,
      "mean_total_tokens_per_sample": 1200.0, "loss": -0.1}, "train"),
    ({"total_step_time": 200.0, "generation": 80.0, "prepare_for_generation/total": 10.0,
      "prepare_for_generation/transfer_and_update_weights": 8.0, "policy_and_reference_logprobs": 20.0,
      "policy_training": 60.0, "reward_calculation": 1.0, "idle/refit_bubble": 10.0,
      "valid_tokens_per_sec_per_gpu": 50.0}, "timing/train"),
)  # fmt: skip


def test_nemo_rl_metrics_become_phases_and_nothing_counts_twice(tmp_path: Path) -> None:
    shape = cl.load_model("Qwen/Qwen3-8B")
    with cl.FrameworkLogger(tmp_path / "run.jsonl", "nemo-rl", devices=32, model=shape, device="H100") as logger:
        for metrics, prefix in NEMO_STEP:
            logger.log_metrics(metrics, 7, prefix=prefix, step_finished=prefix == "timing/train")
    written = {one.phase: one for one in read_ledger(tmp_path / "run.jsonl").entries}
    assert {phase: one.duration_s for phase, one in written.items()} == {
        "generation": 80.0, "verification": 1.0, "log-probs": 20.0, "update": 60.0, "weight sync": 10.0,
        "evaluation": 20.0, "idle": 9.0,
    }  # fmt: skip
    assert written["generation"].tokens_by_kind == pytest.approx({"sampled": 0.9e6, "input": 0.3e6})
    assert (written["update"].sequences, written["update"].step, written["update"].devices) == (1000.0, 7, 32)
    # a trained token is 6 N and its attention, a scored one a third of it
    assert written["update"].flop == pytest.approx(3 * (written["log-probs"].flop or 0.0))
    assert 6 * 8.19e9 * 1.2e6 < (written["update"].flop or 0.0) * 1.09 < 6 * 8.19e9 * 1.2e6 * 1.2


def test_a_step_that_cannot_be_is_written_undivided_and_stops_no_run(tmp_path: Path) -> None:
    logger = cl.FrameworkLogger(tmp_path / "run.jsonl", "verl", devices=8)
    wrong = {"timing_s/step": 10.0, "timing_s/gen": 90.0, "perf/total_num_tokens": 1e5, "prompt_length/mean": 10.0}
    with pytest.warns(UserWarning, match="step 3: its phases are longer than its step"):
        logger.log({**wrong, "response_length/mean": 90.0}, 3)
    (one,) = read_ledger(tmp_path / "run.jsonl").entries
    assert (one.phase, one.duration_s) == ("step", 10.0)
    assert one.tokens_by_kind["sampled"] == pytest.approx(9e4)


def test_a_loop_of_ones_own_writes_a_line_a_phase_and_step(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    with cl.RunLedger(path, SHAPE, cl.RunMachine(devices=4, processes=4), run="own", by_step=True) as ledger:
        for step in (1, 2):
            for _ in range(3):
                with ledger.phase("generation", step) as counted:
                    counted.generate([10, 20], [5, 5])
                with ledger.phase("update", step) as counted:
                    counted.update([15, 25], 25)
            # the step before is on the disk as soon as the next one begins
            assert {one.step for one in read_ledger(path).entries} - {None} == set(range(1, step))
    entries = [one for one in read_ledger(path).entries if one.phase != "idle"]
    assert [(one.step, one.phase) for one in entries] == [(s, p) for s in (1, 2) for p in ("generation", "update")]
    assert total(tuple(entries), "sampled") == 2 * 3 * 4 * 30
    assert [one.sequences for one in entries if one.phase == "update"] == [24.0, 24.0]


def test_a_place_that_no_ledger_can_be_in_gets_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = tmp_path / "notes.txt"
    other.write_text("notes\n")
    places = {tmp_path: "is a directory", other / "run.jsonl": "not a directory", other: "is no run ledger"}
    for place, said in places.items():
        for make in (cl.RunLedger, lambda path: cl.FrameworkLogger(path, "verl")):
            with pytest.raises(cl.InputError, match=said) as caught:
                make(place)
            assert "\n" not in str(caught.value)
    with pytest.raises(cl.InputError, match="framework 'verls': did you mean 'verl'"):
        cl.FrameworkLogger(tmp_path / "run.jsonl", "verls")
    with pytest.raises(cl.InputError, match="devices: how many"):
        cl.FrameworkLogger(tmp_path / "run.jsonl", "nemo-rl")
    monkeypatch.setattr(util, "find_spec", lambda name: None)
    with pytest.raises(cl.InputError, match="the package transformers is needed"):
        cl.trainer_callback(tmp_path / "run.jsonl")


def test_what_the_ledger_would_get_wrong_is_refused(tmp_path: Path) -> None:
    callback = cl.trainer_callback(tmp_path / "run.jsonl")
    state = SimpleNamespace(is_world_process_zero=True, global_step=0, num_input_tokens_seen=0)
    served = SimpleNamespace(num_generations=4, use_vllm=True, vllm_mode="server", world_size=8)
    for args, said in ((SimpleNamespace(torch_compile=True), "torch_compile"), (served, "say devices")):
        with pytest.raises(cl.InputError, match=said):
            callback.on_train_begin(args, state, None, model=model())
    assert list(tmp_path.iterdir()) == []
