"""The decisions about one DIJob: pure functions without client, clock, log or environment."""
