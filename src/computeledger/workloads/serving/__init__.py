"""Serving: one estimate, searches, pools and intervals."""
