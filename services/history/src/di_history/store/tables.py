"""The tables after the newest migration."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
)

metadata = MetaData()

_UID = String(64)
_NAME = String(253)

jobs = Table(
    "jobs",
    metadata,
    Column("uid", _UID, primary_key=True),
    Column("namespace", String(63), nullable=False),
    Column("name", _NAME, nullable=False),
    Column("owner", String(253), nullable=False),
    Column("created", BigInteger, nullable=False),
    Column("phase", String(32), nullable=False),
    Column("completed", BigInteger),
    Column("deleted", BigInteger),
    Column("seen", BigInteger, nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("bytes", BigInteger, nullable=False, server_default="0"),
    Column("snapshot", LargeBinary, nullable=False),
    Index("jobs_by_name", "namespace", "name", "created"),
    Index("jobs_by_creation", "created"),
    Index("jobs_by_sight", "seen"),
)

revisions = Table(
    "revisions",
    metadata,
    Column("job", _UID, primary_key=True),
    Column("number", BigInteger, primary_key=True),
    Column("at", BigInteger, nullable=False),
    Column("who", String(253), nullable=False),
    Column("manifest", LargeBinary, nullable=False),
    Column("content", String(64)),
    Column("same_as", BigInteger),
)

entries = Table(
    "entries",
    metadata,
    Column("job", _UID, primary_key=True),
    Column("key", String(255), primary_key=True),
    Column("kind", String(16), nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("data", Text, nullable=False),
)

placements = Table(
    "placements",
    metadata,
    Column("job", _UID, primary_key=True),
    Column("pod_uid", _UID, primary_key=True),
    Column("namespace", String(63), nullable=False),
    Column("pod", _NAME, nullable=False),
    Column("task", String(63), nullable=False),
    Column("rank", Integer),
    Column("node", _NAME, nullable=False),
    Column("gpus", Integer, nullable=False),
    Column("since", BigInteger, nullable=False),
    Column("until", BigInteger),
    Column("outcome", String(16), nullable=False),
    Column("reason", String(128), nullable=False),
    Column("exit_code", Integer),
    Column("version", BigInteger, nullable=False),
    Column("kind", String(63)),
    Index("placements_by_time", "since"),
    Index("placements_by_end", "until"),
)

samples = Table(
    "samples",
    metadata,
    Column("job", _UID, primary_key=True),
    Column("at", BigInteger, primary_key=True),
    Column("step", Float),
    Column("values", Text, nullable=False),
    Index("samples_by_time", "at"),
)

logs = Table(
    "logs",
    metadata,
    Column("job", _UID, primary_key=True),
    Column("pod_uid", _UID, primary_key=True),
    Column("container", String(63), primary_key=True),
    Column("attempt", Integer, primary_key=True),
    Column("pod", _NAME, nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("stored", BigInteger, nullable=False),
    Column("cut", Boolean, nullable=False),
    Column("final", Boolean, nullable=False),
    Column("failed", Boolean, nullable=False),
    Column("note", String(255), nullable=False),
    Column("tail", Text, nullable=False),
    Column("body", LargeBinary),
    Column("whole_key", String(1024)),
    Column("whole_size", BigInteger),
    Column("whole_cut", Boolean),
    Column("whole_note", String(255)),
)

marks = Table(
    "marks",
    metadata,
    Column("name", String(32), primary_key=True),
    Column("at", BigInteger, nullable=False),
)

OF_JOBS = (revisions, entries, placements, samples, logs)
"""Tables whose rows are deleted with their job."""
