"""Fields of a job that mean more than a value."""
