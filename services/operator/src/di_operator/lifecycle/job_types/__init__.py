"""What depends on the kind of a job: one protocol, and a package for each kind there is."""
