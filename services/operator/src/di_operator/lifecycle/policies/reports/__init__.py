"""Policies that only report the state of a job and change nothing."""
