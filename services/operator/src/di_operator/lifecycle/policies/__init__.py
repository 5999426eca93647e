"""What may decide about a job, one topic a module."""
