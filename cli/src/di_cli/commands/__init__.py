"""One module a command, or a few that belong together; each is imported when it is used."""
