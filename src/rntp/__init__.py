"""Reasoning with next-token prediction: reinforcement learning on ordinary text, and the verifiers that feed it."""

import os

# Trackers send nothing of their own accord, whoever loads them.
os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
