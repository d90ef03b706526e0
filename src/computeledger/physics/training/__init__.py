"""A training step: batch, operations, exchange, memory."""
