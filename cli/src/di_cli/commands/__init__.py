"""The commands, by topic; each module is imported when its command is used."""
