"""Reasoning with next-token prediction: reinforcement learning on ordinary text, and the verifiers that feed it."""
