"""What a server's own metrics say of its speed, load, cache and power: names, scrapes, what lies between two."""
