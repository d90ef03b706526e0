"""Price sheets, and what they reveal of the model behind them."""
