"""Metrics of single jobs, for people who watch them with Prometheus.

What they show is read when a job changes and kept as numbers, so a scrape reads no job. Which jobs
are shown is chosen by a budget of series.
"""
