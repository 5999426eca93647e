"""A real Kubernetes on one machine, for development and tests."""
