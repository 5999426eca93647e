"""What is kept of a failed test: logs, objects of its clusters, and the machine's load."""
