"""Conversion of DIJobs between the served versions of the API."""
