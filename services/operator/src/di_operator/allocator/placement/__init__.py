"""Which replica goes to which node."""
