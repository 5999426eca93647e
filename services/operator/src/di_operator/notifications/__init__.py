"""Notifications about jobs to people and programs outside the cluster."""
