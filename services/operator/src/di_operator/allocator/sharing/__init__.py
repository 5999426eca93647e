"""Quotas, queues and fair shares."""
