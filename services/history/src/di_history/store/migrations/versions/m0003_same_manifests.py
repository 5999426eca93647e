"""Columns for manifests that several revisions of a job share."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Add the hash of a manifest, and the revision whose row has it."""
    op.add_column("revisions", sa.Column("content", sa.String(length=64), nullable=True))
    op.add_column("revisions", sa.Column("same_as", sa.BigInteger(), nullable=True))
