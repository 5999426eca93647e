"""Sizing: the number of replicas of each preemptible job."""
