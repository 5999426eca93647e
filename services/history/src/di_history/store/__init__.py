"""The database of records: SQLite or PostgreSQL."""
