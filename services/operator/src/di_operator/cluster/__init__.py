"""All callers of the API server besides the caches of di_kube."""
