"""Training systems, sites, growth and forecasts: what power and money can train, and when."""
