"""Answers about prices of tokens, and what they reveal."""
