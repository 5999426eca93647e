"""What the allocator would do: expected starts, and the answer for a hypothetical job."""
