"""The page: jobs, one job and the cluster in a browser, live, with the rights of who looks."""
