"""Columns for the locations of whole logs."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Add the columns beside the log tails."""
    op.add_column("logs", sa.Column("whole_key", sa.String(length=1024), nullable=True))
    op.add_column("logs", sa.Column("whole_size", sa.BigInteger(), nullable=True))
    op.add_column("logs", sa.Column("whole_cut", sa.Boolean(), nullable=True))
    op.add_column("logs", sa.Column("whole_note", sa.String(length=255), nullable=True))
