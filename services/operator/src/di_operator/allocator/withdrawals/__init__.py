"""Withdrawal of grants whose pods are refused, and the delay before the next grant."""
