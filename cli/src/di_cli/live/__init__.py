"""Live views of jobs."""
