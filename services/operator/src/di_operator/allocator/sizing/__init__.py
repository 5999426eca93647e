"""How many replicas each preemptible job is to have."""
