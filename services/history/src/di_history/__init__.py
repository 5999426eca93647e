"""What happened to DIJobs, kept when they and their pods are gone."""
