"""The allocator's view of the cluster."""
