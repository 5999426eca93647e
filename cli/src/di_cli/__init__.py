"""The command `di`: DIJobs from the command line."""
