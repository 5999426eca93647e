"""Who gets how many replicas where: pure decisions over jobs and nodes."""
