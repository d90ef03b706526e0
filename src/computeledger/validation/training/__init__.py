"""Training against measurements."""
