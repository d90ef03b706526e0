"""What a GPU-hour and a cached token cost."""
