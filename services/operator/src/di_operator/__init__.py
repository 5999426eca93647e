"""Controller for DIJobs: lifecycle and allocation."""
