"""The pages, and their common parts."""
