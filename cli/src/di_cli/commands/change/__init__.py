"""Commands that change existing jobs."""
