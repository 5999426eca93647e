"""What is counted of failures, and what else a failure policy does about them."""
