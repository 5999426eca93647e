"""The only callers of the API server."""
