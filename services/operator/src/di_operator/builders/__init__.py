"""Object bodies of a DIJob: pure functions from the spec to dicts for the API server."""
