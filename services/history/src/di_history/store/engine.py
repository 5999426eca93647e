"""The connection to SQLite or PostgreSQL, and the migration of its tables."""

from __future__ import annotations

from importlib.resources import files
from typing import Any, Final

import structlog
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, create_engine, event, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

from di_service.settings import SettingsError

_log = structlog.get_logger()

STATEMENT_SECONDS: Final = 10
_CONNECT_SECONDS: Final = 5
_LOCK: Final = 0x64695F68
"""Key of the PostgreSQL advisory lock for migrations, which other replicas wait for."""


def open_engine(url: str, *, connections: int = 8) -> Engine:
    """Return an engine for `sqlite:///FILE` or `postgresql://...`, without connecting.

    Raises:
        SettingsError: the URL is neither.
    """
    try:
        parsed = make_url(url)
    except ArgumentError as error:
        raise SettingsError("the address of the database is no URL") from error
    match parsed.get_backend_name():
        case "sqlite":
            engine = create_engine(
                parsed,
                pool_size=connections,
                max_overflow=0,
                pool_timeout=STATEMENT_SECONDS,
                connect_args={"timeout": STATEMENT_SECONDS, "check_same_thread": False},
            )
            event.listen(engine, "connect", _prepare_sqlite)
            return engine
        case "postgresql":
            return create_engine(
                parsed.set(drivername="postgresql+psycopg"),
                pool_size=connections,
                max_overflow=0,
                pool_timeout=STATEMENT_SECONDS,
                pool_pre_ping=True,
                connect_args={
                    "connect_timeout": _CONNECT_SECONDS,
                    "options": f"-c statement_timeout={STATEMENT_SECONDS * 1000}",
                },
            )
        case other:
            raise SettingsError(f"the database is {other}; it may be sqlite or postgresql")


def migrations() -> Config:
    """Return alembic's configuration with the folder of migrations."""
    config = Config()
    config.set_main_option("script_location", str(files("di_history.store") / "migrations"))
    return config


def migrate(engine: Engine) -> None:
    """Migrate the tables to the newest version; an up-to-date database is unchanged.

    So is a database of a later version, which has everything that this version needs (see
    `di_history.store.migrations.versions`).

    One transaction: a migration that fails, or whose process ends, changes nothing.
    """
    config = migrations()
    with engine.begin() as connection:
        if engine.dialect.name == "postgresql":
            # Valid for the transaction. Another replica's migration can take longer than the limit
            # of a statement.
            connection.execute(text("SET LOCAL statement_timeout = 0"))
            connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
        else:
            # At once, and not with the first change: otherwise two processes would both see an
            # empty file.
            connection.exec_driver_sql("BEGIN IMMEDIATE")
        known = {each.revision for each in ScriptDirectory.from_config(config).walk_revisions()}
        found = MigrationContext.configure(connection).get_current_heads()
        if not known.issuperset(found):
            _log.warning("the tables are of a later version, and used as they are", version=found)
            return
        config.attributes["connection"] = connection
        command.upgrade(config, "head")


def size_of(connection: Connection) -> int:
    """Return the bytes that the database uses on its disk."""
    if connection.dialect.name == "postgresql":
        found = connection.execute(text("SELECT pg_database_size(current_database())")).scalar_one()
    else:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
        found = int(pages) * int(connection.exec_driver_sql("PRAGMA page_size").scalar_one())
    return int(found)


def _prepare_sqlite(connection: Any, _record: object) -> None:
    cursor = connection.cursor()
    for setting in (
        # Readers do not wait for the writer.
        "journal_mode=WAL",
        # Consistent after a crash of the process or the machine; the latter can lose the last
        # transactions, which are observed again.
        "synchronous=NORMAL",
        "journal_size_limit=67108864",
    ):
        cursor.execute(f"PRAGMA {setting}")
    cursor.close()
