"""A job and its objects as they were read from the cluster."""
