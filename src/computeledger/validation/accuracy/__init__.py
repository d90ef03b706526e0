"""How far off predictions are of what they were not fitted on: the published table, and what other tools say."""
