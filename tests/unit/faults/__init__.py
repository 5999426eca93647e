"""The fault harness's own rules."""
