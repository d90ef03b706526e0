"""Time, memory and traffic of transformers on accelerators."""
