"""Commands that show jobs, their pods, logs and queues."""
