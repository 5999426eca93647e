"""Admission webhook for DIJobs: defaults and refusals."""
