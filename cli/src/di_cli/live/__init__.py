"""Jobs as they change."""
