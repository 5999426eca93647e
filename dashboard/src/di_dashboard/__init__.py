"""The dashboard: jobs, single jobs and the cluster in a browser, live, with the user's
permissions.
"""
