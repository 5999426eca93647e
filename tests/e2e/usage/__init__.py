"""What pods use, measured on a real node."""
