"""Commands that start a job, or show what starting it would do."""
