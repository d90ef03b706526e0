"""Readers of what other tools write: logs, results and counters as entries of the run ledger, one file per tool."""
