"""Runnable jobs, and the demonstration that runs one of them."""
