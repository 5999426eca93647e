"""Requests between the pods of one job."""
