"""Grants that are taken back, and how long such a job waits for the next one."""
