"""Migrations; alembic runs them by the folder, nobody imports them."""
