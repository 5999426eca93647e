"""Jobs with tasks: the phase follows from all replicas together."""
