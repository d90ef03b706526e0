"""Run ledgers written while a run goes on, from any training loop."""
