"""Metrics of the process and of the jobs."""
