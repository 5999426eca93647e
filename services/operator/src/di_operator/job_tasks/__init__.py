"""DIJobTasks: tasks that are scaled on their own, kept in step with their jobs."""
