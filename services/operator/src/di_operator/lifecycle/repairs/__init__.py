"""Repairs of objects that were edited by hand."""
