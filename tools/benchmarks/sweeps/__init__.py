"""Measurements of sweeps."""
