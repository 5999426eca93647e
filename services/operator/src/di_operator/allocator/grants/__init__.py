"""Grants as leases: what is asked before one is given, and when one is withdrawn."""
