"""The cluster in memory, as one user's watch returns it."""
