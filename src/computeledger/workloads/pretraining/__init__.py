"""Pretraining: one estimate, the search of layouts, the run."""
