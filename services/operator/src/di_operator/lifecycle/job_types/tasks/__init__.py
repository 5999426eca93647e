"""Jobs with tasks: all replicas together say where the job stands."""
