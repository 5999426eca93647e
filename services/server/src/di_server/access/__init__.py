"""Authentication, authorization and rate limits of the server's callers."""
