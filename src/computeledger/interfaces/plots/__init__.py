"""Plots as plotly specifications: plain dictionaries that the report and the app draw alike."""
