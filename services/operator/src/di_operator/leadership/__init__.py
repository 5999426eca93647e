"""Leader election, and the claim of one release on the cluster."""
