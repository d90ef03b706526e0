"""Answers as plain dictionaries, the shape that --json prints."""
