"""Reasoning with next-token prediction: reinforcement learning on ordinary text, and the verifiers that feed it."""

import os

# Trackers that are installed load with TRL, whether a run asks for them or not: they send nothing of their own accord.
os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
