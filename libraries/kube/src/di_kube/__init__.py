"""The Kubernetes API over raw dicts: clients, typed errors, and a cache kept by list and watch.

The edge of the library: everything that does network I/O, and nothing else, lives here.
"""
