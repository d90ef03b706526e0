"""What is kept between commands: books of plans and runs, records of simulations."""
