"""Metrics of single jobs for Prometheus.

Values are read when a job changes and stored as numbers, so a scrape reads no job. A limit on the
number of series decides which jobs have metrics.
"""
