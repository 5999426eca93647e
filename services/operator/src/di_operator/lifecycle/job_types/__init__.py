"""The types of jobs: one protocol, and a package for each type."""
