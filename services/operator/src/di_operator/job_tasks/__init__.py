"""DIJobTasks: objects by which single tasks are scaled, synchronized with their jobs."""
