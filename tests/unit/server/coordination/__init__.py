"""What coordinators ask for and get."""
