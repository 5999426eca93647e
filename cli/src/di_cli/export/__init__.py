"""Curves of jobs in the form of other tools."""
