"""Watching a server: the loop of scrapes, its own metrics, and a dashboard for them."""
