"""Nodes of a cluster: a real one, and simulated ones."""
