"""di: DIJobs from the command line."""
