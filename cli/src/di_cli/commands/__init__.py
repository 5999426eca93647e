"""The commands, by topic; each module is imported only for its command."""
