"""Commands that start serving engines, as people paste them, and what they say in the words of a question."""
