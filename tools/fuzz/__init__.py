"""Input of strangers without end: coverage-guided on what reads it, and REST by its document."""
