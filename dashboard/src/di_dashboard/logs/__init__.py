"""Pod logs for pages."""
