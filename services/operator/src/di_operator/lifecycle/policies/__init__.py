"""The policies that decide about a job, one module for each topic."""
