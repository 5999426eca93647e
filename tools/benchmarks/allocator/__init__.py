"""The allocator's rounds and policies, and jobs that wait in queues."""
