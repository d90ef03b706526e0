"""A scale-up domain under RL and a run on just its chips: one answer on every system."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from computeledger.errors import DoesNotFitError
from computeledger.facts.catalog import system_ids
from computeledger.facts.load import load_model, load_system
from computeledger.physics.calibration.rl import rl_factors
from computeledger.physics.parallelism import Layout, parse_layout
from computeledger.physics.roofline import Machine, Precision
from computeledger.workloads.rl.estimate import estimate_rl
from computeledger.workloads.rl.generation import engine_memory
from computeledger.workloads.rl.lengths import lengths_of_mean
from computeledger.workloads.rl.scale_up import NO_LIMIT, domain_use, longest_trace
from computeledger.workloads.rl.scenario import Algorithm, RLMachines, RLScenario, Split
from computeledger.workloads.rl.search import generation_layouts, rl_machine, search_generation
from computeledger.workloads.rl.training import Trainer
from computeledger.workloads.rl.turns import Sampling
from computeledger.workloads.serving.estimate import ServingScenario

SAMPLING = Sampling(lengths_of_mean(4e3, 12e3), 500.0)


@pytest.mark.parametrize("system", system_ids())
def test_a_domain_and_a_run_on_its_chips_agree_on_every_system(system: str) -> None:
    machine = rl_machine(Machine(load_system(system)))
    machines, n = RLMachines(machine, machine, rl_factors()), int(machine.system.n_gpus_scale_up.value)
    for model in ("llama-3.1-8b", "llama-3.1-70b", "deepseek-v3"):
        engine = ServingScenario(load_model(model), Layout(), Precision(), 500.0, 4e3, NO_LIMIT)
        for share in (0.0, 0.4):
            engine = replace(engine, host=engine_memory(share))
            use = domain_use(engine, SAMPLING, machines)
            run = RLScenario(engine, SAMPLING, Algorithm(2048, 16), Trainer(Layout()), Split(float(n), float(n)))
            held = replace(engine, input_tokens=500.0, output_tokens=11.5e3, batch=1.0)
            try:
                search_generation(run, generation_layouts(run, held, machine, n), machines)
            except DoesNotFitError:
                assert not use.fits, "a run on the domain does not fit, the domain says it does"
                continue
            assert use.fits, "a run on the domain fits, the domain says it does not"
            there = replace(run, engine=replace(engine, layout=parse_layout(use.layout)))
            made = estimate_rl(there, machines).generation
            assert use.n_chips == n and there.n_replicas * there.engine.layout.n_gpus <= n
            assert float(np.max(made.n_places)) * float(there.n_replicas) == pytest.approx(use.n_rollouts)


def test_the_longest_trace_is_that_of_the_question() -> None:
    machine = rl_machine(Machine(load_system("h200-nvl8")))
    machines = RLMachines(machine, machine, rl_factors())
    engine = ServingScenario(load_model("qwen3-235b-a22b"), Layout(), Precision(), 500.0, 4e3, NO_LIMIT)
    traces = [longest_trace(engine, Sampling(lengths_of_mean(1e3, tail * 1e3), 500.0), machines) for tail in (1.5, 6.0)]
    assert traces[0] >= traces[1], "a longer tail leaves less room"
    short = replace(engine, host=engine_memory(0.7))
    assert domain_use(short, SAMPLING, machines).n_rollouts < domain_use(engine, SAMPLING, machines).n_rollouts
