"""Answers about serving: one pool, two pools, sweeps, launch commands."""
