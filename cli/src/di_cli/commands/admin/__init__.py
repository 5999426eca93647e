"""Commands about the installation and the way to it."""
