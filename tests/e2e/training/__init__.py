"""Examples that train."""
