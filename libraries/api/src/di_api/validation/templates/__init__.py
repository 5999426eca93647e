"""Validation of pod templates: their types, and reserved keys and values."""
