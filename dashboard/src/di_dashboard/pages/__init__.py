"""The pages, and what all of them have."""
