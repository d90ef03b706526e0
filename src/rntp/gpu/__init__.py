"""Measurements of one GPU beside the planner's predictions: calibration, RL on text, serving and training."""
