"""Pure decisions of the allocator: replica counts and nodes of jobs."""
