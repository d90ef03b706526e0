"""Texts that must be thought about: their continuation needs several steps that one pass of a small model cannot make."""
