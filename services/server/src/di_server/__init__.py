"""di-server: REST over DIJobs. Handlers call services, services call storage, storage the API."""
