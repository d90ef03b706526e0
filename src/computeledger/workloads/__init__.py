"""Scenarios and their frozen results: serving, pretraining, reinforcement learning."""
