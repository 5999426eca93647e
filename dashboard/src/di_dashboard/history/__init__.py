"""Past changes of jobs: observed by this process, and stored by di-history."""
