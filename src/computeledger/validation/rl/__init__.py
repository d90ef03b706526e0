"""Reinforcement learning against measurements."""
