"""Expected starts of waiting jobs."""
