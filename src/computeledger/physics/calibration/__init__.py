"""Fitted factors between the datasheet and the machine."""
