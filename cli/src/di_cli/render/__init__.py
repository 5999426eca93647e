"""Rendering of rows as text."""
