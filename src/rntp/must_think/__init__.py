"""Texts that must be thought about: what follows needs several steps that one pass of a small model cannot make."""
