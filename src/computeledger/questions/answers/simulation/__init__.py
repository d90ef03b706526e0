"""Answers of simulations: serving and RL through time."""
