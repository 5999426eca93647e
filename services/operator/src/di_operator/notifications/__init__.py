"""Tells people and programs outside the cluster what has happened to a job."""
