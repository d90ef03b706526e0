"""The books of a real short run: every second has its phase, the work is what torch counts, a restart is seen."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import Qwen3Config, Qwen3ForCausalLM

from computeledger.actuals.recording.power_meter import EnergyCounter
from computeledger.actuals.recording.run import PhaseBook, RunLedger, RunMachine
from computeledger.actuals.run_ledger import read_ledger
from computeledger.errors import InputError
from rntp.machine import measure_next_token

CONFIG = Qwen3Config(
    vocab_size=1024, hidden_size=128, intermediate_size=384, num_hidden_layers=2, num_attention_heads=4,
    num_key_value_heads=2, head_dim=32, max_position_embeddings=256,
)  # fmt: skip
SEQUENCES, CONTEXT, THOUGHT, GOLD = 4, 64, 32, 16


@pytest.fixture(scope="module")
def model() -> Any:
    torch.manual_seed(0)
    made: Any = Qwen3ForCausalLM(CONFIG)
    # torch counts no FLOP for the fused attention of a CPU; written out, it counts it whole
    made.set_attn_implementation("eager")
    return made


def generate(model: Any, page: PhaseBook) -> Any:
    context = torch.randint(0, 1024, (SEQUENCES, CONTEXT))
    options = {"max_new_tokens": THOUGHT, "min_new_tokens": THOUGHT, "do_sample": True, "pad_token_id": 0}
    page.generate(np.full(SEQUENCES, THOUGHT), CONTEXT)
    with torch.no_grad():
        return model.generate(context, **options)


def score(model: Any, page: PhaseBook) -> None:
    page.forward(np.full(SEQUENCES, CONTEXT + THOUGHT + GOLD), head_tokens=GOLD)
    with torch.no_grad():
        model(torch.randint(0, 1024, (SEQUENCES, CONTEXT + THOUGHT + GOLD)), logits_to_keep=GOLD)


def update(model: Any, page: PhaseBook) -> None:
    ids = torch.randint(0, 1024, (SEQUENCES, CONTEXT + THOUGHT))
    page.train(np.full(SEQUENCES, CONTEXT + THOUGHT))
    model(ids, labels=ids).loss.backward()
    model.zero_grad()


@pytest.mark.parametrize("phase", [generate, score, update])
def test_counted_work_is_what_torch_counts(model: Any, phase) -> None:
    page = PhaseBook(RunLedger(None, CONFIG, RunMachine()).model)
    with FlopCounterMode(display=False) as counter:
        phase(model, page)
    assert page.work.executed_flop == pytest.approx(counter.get_total_flops(), rel=0.02)
    assert 0.9 < page.work.flop / page.work.executed_flop <= 1  # the masked half of the attention


def test_phases_and_idle_are_the_wall_time(model: Any, tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    outside = time.perf_counter()
    with RunLedger(path, CONFIG, RunMachine(devices=2, processes=2), run="short") as books:
        inside = time.perf_counter()
        measure_next_token(books, model, torch.randint(0, 1024, (SEQUENCES, CONTEXT)), repeats=1)
        for step in (1, 2):
            with books.phase("generation", step) as page:
                generate(model, page)
                with books.phase("weight sync"):
                    time.sleep(0.05)
            time.sleep(0.1)
            with books.phase("update", step) as page:
                update(model, page)
        inside = time.perf_counter() - inside
    outside = time.perf_counter() - outside
    entries = read_ledger(path).entries
    assert 2 * inside <= sum(entry.device_s for entry in entries) <= 2 * outside
    out = books.summary()
    assert sum(part["fraction"] for part in out["phases"].values()) == pytest.approx(1)
    idle, sync = (sum(e.duration_s for e in entries if e.phase == name) for name in ("idle", "weight sync"))
    assert idle >= 0.2 and sync >= 0.1
    assert out["tokens_sampled"] == 2 * 2 * SEQUENCES * THOUGHT
    assert out["beta_gpu_time"] > out["beta_gpu_time_busy"] > 0
    assert out["energy_j"] is None and "not measured" in out["energy_note"]


def test_the_reference_leaves_weights_and_random_state_alone(model: Any) -> None:
    before = {name: value.clone() for name, value in model.state_dict().items()}
    state = torch.get_rng_state()
    measure_next_token(
        RunLedger(None, CONFIG, RunMachine()), model, torch.randint(0, 9, (2, 8), generator=torch.Generator())
    )
    assert torch.equal(state, torch.get_rng_state())
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(value.grad is None for value in model.parameters())


def test_a_restart_is_one_more_attempt_and_its_repeated_work_is_not_in_beta(tmp_path: Path) -> None:
    def steps(numbers: range) -> dict:
        with RunLedger(tmp_path / "ledger.jsonl", CONFIG, RunMachine(), run="killed") as books:
            for step in numbers:
                with books.phase("generation", step) as page:
                    page.generate(np.full(SEQUENCES, THOUGHT), CONTEXT)
        return books.summary()

    once = steps(range(1, 5))
    twice = steps(range(3, 7))
    assert (once["steps"], twice["steps"], twice["attempts"]) == (4, 6, 2)
    assert twice["tokens_sampled"] == 1.5 * once["tokens_sampled"]
    assert twice["beta_flop"] == pytest.approx(once["beta_flop"])
    assert twice["repeated_gpu_hours"] > 0


def test_a_phase_that_fails_is_written_and_an_unknown_one_is_refused() -> None:
    books = RunLedger(None, None, RunMachine())
    with pytest.raises(ZeroDivisionError), books.phase("update", 1):
        _ = 1 / 0
    assert [entry.phase for entry in books.entries if entry.phase != "idle"] == ["update"]
    with pytest.raises(InputError, match="did you mean 'generation'"), books.phase("generatoin", 1):
        pass


def test_energy_is_power_over_time_of_every_device() -> None:
    counter = EnergyCounter()
    assert counter.energy_j(0.0) is None
    counter.read("0", 100.0, 1.0)
    counter.read("1", 50.0, 2.0)
    counter.read("0", 200.0, 4.0)
    assert counter.energy_j(5.0) == pytest.approx(100 * 3 + 50 * 3 + 200)
