"""Commands that start a job, or show the effect of starting it."""
