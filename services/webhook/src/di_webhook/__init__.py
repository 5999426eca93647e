"""Admission webhook for DIJobs: defaults and validation."""
