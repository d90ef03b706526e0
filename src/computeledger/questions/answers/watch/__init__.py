"""A running server against its prediction: what was deployed, the load it sees, what binds, what would help."""
