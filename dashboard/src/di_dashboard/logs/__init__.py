"""Logs of pods, read for pages."""
