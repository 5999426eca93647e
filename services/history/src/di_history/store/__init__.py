"""Where records are kept: SQLite or PostgreSQL."""
