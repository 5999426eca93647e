"""Rows as text."""
