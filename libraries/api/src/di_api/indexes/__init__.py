"""The indexes of a task's replicas, and their form as text."""
