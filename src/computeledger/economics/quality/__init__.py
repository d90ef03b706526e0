"""Public evaluations joined to prices: ability on one scale, who is strong for its price, the price of a quality."""
