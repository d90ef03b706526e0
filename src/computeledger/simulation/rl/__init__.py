"""Reinforcement learning through time: the scenario and its events."""
