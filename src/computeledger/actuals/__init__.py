"""What really happened: ledgers of runs, settled against the plan."""
