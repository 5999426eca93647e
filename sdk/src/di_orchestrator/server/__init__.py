"""Requests to di-server about the job of this pod."""
