"""What happened to jobs: as this process saw it, and as di-history kept it."""
