"""Answers about the frontier: systems, sites, growth, forecasts, single runs."""
