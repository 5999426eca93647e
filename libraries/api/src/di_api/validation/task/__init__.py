"""Rules about one task: a module for each field or feature."""
