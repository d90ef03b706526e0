"""Answers of the commands, as documents."""
