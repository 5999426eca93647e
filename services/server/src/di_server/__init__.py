"""di-server: the REST API for DIJobs. Handlers call services, services call storage, storage calls
the API server.
"""
