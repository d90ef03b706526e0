"""Estimates by hand: the two-equation roofline and its uses."""
