"""REST server of DIJobs: scaling, queries and profilings."""
