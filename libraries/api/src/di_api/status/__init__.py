"""Parts of the status of a job that several services read and write."""
