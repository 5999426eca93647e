"""The history of DIJobs, which outlives them and their pods."""
