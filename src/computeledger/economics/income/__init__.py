"""What a model earns over its life: months of sales and serving, payback, return, when to retire it."""
