"""Builders of a DIJob's objects: pure functions from the spec to request bodies."""
