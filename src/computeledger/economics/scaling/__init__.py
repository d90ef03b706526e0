"""Scaling laws and the allocation of a budget."""
