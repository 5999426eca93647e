"""The Kubernetes API over raw dicts: clients, typed errors, and a cache kept by list and watch.

This library contains all network I/O with the API server, and nothing else.
"""
