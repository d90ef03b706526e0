"""Answers about reinforcement learning: the run, and what it buys."""
