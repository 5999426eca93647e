"""A column for the value of the price label of a placement's node."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Add the column; placements from before have none."""
    op.add_column("placements", sa.Column("kind", sa.String(length=63), nullable=True))
