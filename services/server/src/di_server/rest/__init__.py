"""HTTP: requests read, responses written. Besides the application nothing else knows Flask."""
