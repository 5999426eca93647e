"""What to do about one DIJob: pure decisions, no client, clock, log or environment."""
