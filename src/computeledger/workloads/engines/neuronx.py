"""Transformers NeuronX on Trainium and Inferentia: no constants of its own, and no launcher known here."""

from __future__ import annotations

from computeledger.workloads.engines.engine import Engine

ENGINE = Engine("neuronx", makers=("Amazon",), names=("neuronx", "neuron"), quantises_on_loading=False)
