"""Policies that only report what is known of a job; they change nothing."""
