"""Serving: operations of a step, memory, batching."""
