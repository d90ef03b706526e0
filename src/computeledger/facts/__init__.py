"""What somebody published: accelerators, systems, prices and models, each number with its source."""
