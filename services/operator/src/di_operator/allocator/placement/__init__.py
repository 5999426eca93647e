"""Placement: the nodes of replicas whose numbers are decided."""
