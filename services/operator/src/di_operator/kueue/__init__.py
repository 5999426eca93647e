"""The Workloads by which Kueue admits a job, as data: parsed, planned and built without I/O."""
