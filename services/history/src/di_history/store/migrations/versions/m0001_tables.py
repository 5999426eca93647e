"""The first tables."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "entries",
        sa.Column("job", sa.String(length=64), nullable=False),
        sa.Column("key", sa.String(length=255), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("data", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("job", "key"),
    )
    op.create_table(
        "jobs",
        sa.Column("uid", sa.String(length=64), nullable=False),
        sa.Column("namespace", sa.String(length=63), nullable=False),
        sa.Column("name", sa.String(length=253), nullable=False),
        sa.Column("owner", sa.String(length=253), nullable=False),
        sa.Column("created", sa.BigInteger(), nullable=False),
        sa.Column("phase", sa.String(length=32), nullable=False),
        sa.Column("completed", sa.BigInteger(), nullable=True),
        sa.Column("deleted", sa.BigInteger(), nullable=True),
        sa.Column("seen", sa.BigInteger(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("snapshot", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("uid"),
    )
    op.create_index("jobs_by_creation", "jobs", ["created"], unique=False)
    op.create_index("jobs_by_name", "jobs", ["namespace", "name", "created"], unique=False)
    op.create_index("jobs_by_sight", "jobs", ["seen"], unique=False)
    op.create_table(
        "logs",
        sa.Column("job", sa.String(length=64), nullable=False),
        sa.Column("pod_uid", sa.String(length=64), nullable=False),
        sa.Column("container", sa.String(length=63), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("pod", sa.String(length=253), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("stored", sa.BigInteger(), nullable=False),
        sa.Column("cut", sa.Boolean(), nullable=False),
        sa.Column("final", sa.Boolean(), nullable=False),
        sa.Column("failed", sa.Boolean(), nullable=False),
        sa.Column("note", sa.String(length=255), nullable=False),
        sa.Column("tail", sa.Text(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=True),
        sa.PrimaryKeyConstraint("job", "pod_uid", "container", "attempt"),
    )
    op.create_table(
        "marks",
        sa.Column("name", sa.String(length=32), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_table(
        "placements",
        sa.Column("job", sa.String(length=64), nullable=False),
        sa.Column("pod_uid", sa.String(length=64), nullable=False),
        sa.Column("namespace", sa.String(length=63), nullable=False),
        sa.Column("pod", sa.String(length=253), nullable=False),
        sa.Column("task", sa.String(length=63), nullable=False),
        sa.Column("rank", sa.Integer(), nullable=True),
        sa.Column("node", sa.String(length=253), nullable=False),
        sa.Column("gpus", sa.Integer(), nullable=False),
        sa.Column("since", sa.BigInteger(), nullable=False),
        sa.Column("until", sa.BigInteger(), nullable=True),
        sa.Column("outcome", sa.String(length=16), nullable=False),
        sa.Column("reason", sa.String(length=128), nullable=False),
        sa.Column("exit_code", sa.Integer(), nullable=True),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("job", "pod_uid"),
    )
    op.create_index("placements_by_end", "placements", ["until"], unique=False)
    op.create_index("placements_by_time", "placements", ["since"], unique=False)
    op.create_table(
        "revisions",
        sa.Column("job", sa.String(length=64), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("who", sa.String(length=253), nullable=False),
        sa.Column("manifest", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("job", "number"),
    )
    op.create_table(
        "samples",
        sa.Column("job", sa.String(length=64), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("step", sa.Float(), nullable=True),
        sa.Column("values", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("job", "at"),
    )
    op.create_index("samples_by_time", "samples", ["at"], unique=False)
