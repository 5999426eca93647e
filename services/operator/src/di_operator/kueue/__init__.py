"""The Workloads by which Kueue admits a job, as data: read, wanted, built; without I/O."""
