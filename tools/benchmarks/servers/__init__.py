"""The services and pages that answer requests."""
