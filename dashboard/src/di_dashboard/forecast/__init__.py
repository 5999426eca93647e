"""When jobs that wait are expected to start."""
