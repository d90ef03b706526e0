"""What really happened: a run's own ledger, other tools' logs, and what this machine reaches."""
