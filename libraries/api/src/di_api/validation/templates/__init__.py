"""Pod templates: their types, and what of ours they may not set."""
