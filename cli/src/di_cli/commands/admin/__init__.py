"""Commands about the installation and the access to it."""
