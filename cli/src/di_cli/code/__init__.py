"""Own code without an image: which files are taken, their bundle, the job, and its start."""
