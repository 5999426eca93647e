"""Conversion of other operators' manifests to DIJobs, as pure functions: a module for each kind."""
