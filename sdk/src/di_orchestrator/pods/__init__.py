"""What pods of one job know of each other."""
