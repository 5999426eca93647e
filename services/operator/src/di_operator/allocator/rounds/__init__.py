"""What a reconsideration of all jobs costs, and whom."""
