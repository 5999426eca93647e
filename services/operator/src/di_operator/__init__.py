"""The Kubernetes controller for DIJobs: lifecycle and allocation."""
