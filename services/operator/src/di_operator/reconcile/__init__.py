"""One reconcile of a job: read, decide, write."""
