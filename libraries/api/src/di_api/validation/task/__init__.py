"""What one task may have: a module for each field or feature of it."""
