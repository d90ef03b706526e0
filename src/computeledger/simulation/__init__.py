"""Event simulation: serving and reinforcement learning through time, from event to event."""
