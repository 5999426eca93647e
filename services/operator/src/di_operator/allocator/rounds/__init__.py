"""Rate and cost of reconsidering all jobs."""
