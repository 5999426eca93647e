"""What the allocator reads of the cluster."""
