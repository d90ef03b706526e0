"""Compiles the simulator's kernels where this machine has not done so yet: the tests load what is stored."""

from __future__ import annotations

from computeledger.simulation import compiled
from computeledger.simulation.serving.clock import simulate_serving
from tests.simulation import test_limits, test_rl

if __name__ == "__main__" and compiled.can_compile():
    compiled.COMPILE_EVENTS = 0
    simulate_serving(test_limits.fleet(1, 4), test_limits.load(60))
    test_rl.run(test_rl.scenario())
