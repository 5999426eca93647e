"""As much of a Kubernetes API as the operator and di-server need, in memory and over HTTP."""
