"""From a question to its answer."""
