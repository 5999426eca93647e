"""The part of the Kubernetes API that the operator and di-server use, in memory and over HTTP."""
