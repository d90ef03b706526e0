"""A plan and its ledger, phase by phase."""
