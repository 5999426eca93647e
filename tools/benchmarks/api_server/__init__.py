"""Measurements of what the API server does for a request."""
