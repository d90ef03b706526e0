"""Serving against measurements."""
