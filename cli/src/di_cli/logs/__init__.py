"""Merged logs of many pods."""
