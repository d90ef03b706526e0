"""Money and the three ledgers: plans, costs, balance."""
