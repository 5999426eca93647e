"""What depends on the type of a job: one protocol, and a package for each type."""
