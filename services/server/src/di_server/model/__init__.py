"""Parsed forms of the objects of requests; no I/O."""
