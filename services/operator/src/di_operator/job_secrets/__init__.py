"""The key from which job secrets are derived."""
