"""What is asked over HTTP, and by whom."""
