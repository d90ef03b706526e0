"""Reinforcement learning: one step, searches, the run."""
