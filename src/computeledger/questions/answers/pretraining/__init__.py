"""Answers about pretraining: the configuration, its step, the run."""
