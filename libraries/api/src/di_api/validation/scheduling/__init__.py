"""Where pods are placed and by whom, and what does not go with that."""
