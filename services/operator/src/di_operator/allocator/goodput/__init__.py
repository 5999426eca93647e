"""Goodput models: the speed of a job by its number of replicas, fitted to its measurements."""
