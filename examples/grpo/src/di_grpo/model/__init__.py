"""The language model and what it is to learn: all that its warm-up needs, nothing of the job."""
