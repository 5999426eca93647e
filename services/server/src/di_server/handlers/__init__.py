"""From HTTP to calls of services and back; nothing is decided here."""
