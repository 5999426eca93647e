"""Commands that change jobs which exist."""
