"""Books of plans and runs."""
