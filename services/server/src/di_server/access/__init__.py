"""Who may use the server on which job, and how often."""
