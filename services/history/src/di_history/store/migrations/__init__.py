"""Migrations, which alembic runs from their folder; no module imports them."""
