"""Cost, time and success of a finished task."""
