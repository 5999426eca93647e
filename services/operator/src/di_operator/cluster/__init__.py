"""All callers of the API server except the caches of di_kube."""
