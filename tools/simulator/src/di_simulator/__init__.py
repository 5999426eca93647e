"""Runs allocation policies on recorded workloads."""
