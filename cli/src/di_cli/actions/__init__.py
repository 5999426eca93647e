"""Actions on jobs of commands and the Python client; no command line, no output."""
