"""Pods as an API server returns them: what their statuses mean for the replica."""
