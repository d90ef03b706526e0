"""Serving through time: traffic, the fleet, steady state, searches."""
