"""The cluster in memory, as one watch has it."""
