"""The key that the secrets of jobs are derived from."""
