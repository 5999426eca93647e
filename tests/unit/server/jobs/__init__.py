"""Scaling and reports of jobs with tasks."""
