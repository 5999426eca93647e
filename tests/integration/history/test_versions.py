"""di-history of one version on the tables of another."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Engine, MetaData, text

from di_history.store.engine import migrate, migrations, open_engine
from di_history.store.writer import Writer
from tests.integration.history_records import everything, rows

_SCRIPTS = ScriptDirectory.from_config(migrations())
REVISIONS = [each.revision for each in _SCRIPTS.walk_revisions()]
"""The newest first."""


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    engine = open_engine(f"sqlite:///{tmp_path}/history.db")
    yield engine
    engine.dispose()


def _bring_to(engine: Engine, revision: str) -> MetaData:
    """Migrate so far; returns the tables."""
    with engine.begin() as connection:
        config = migrations()
        config.attributes["connection"] = connection
        command.upgrade(config, revision)
        found = MetaData()
        found.reflect(connection)
        return found


@pytest.mark.proves("history.md#databases/rollback")
@pytest.mark.parametrize("revision", REVISIONS[1:])
def test_an_earlier_version_finds_all_that_it_had(engine: Engine, revision: str) -> None:
    before = _bring_to(engine, revision)
    migrate(engine)
    with engine.connect() as connection:
        # What would have to be done to go back.
        back: list[Any] = compare_metadata(MigrationContext.configure(connection), before)
    added = [(kind, what) for kind, *_, what in back]
    assert {kind for kind, _ in added} <= {"remove_table", "remove_index", "remove_column"}
    columns = [what for kind, what in added if kind == "remove_column"]
    assert all(each.nullable or each.server_default is not None for each in columns)


def test_the_tables_of_a_later_version_are_used_as_they_are(engine: Engine) -> None:
    migrate(engine)
    with engine.begin() as connection:
        connection.execute(text("ALTER TABLE logs ADD COLUMN later INTEGER"))
        connection.execute(text("UPDATE alembic_version SET version_num = 'later'"))
    migrate(engine)
    Writer(engine, job_log_bytes=100_000, job_bytes=40 << 20).write(everything())
    assert set(rows(engine).values()) == {1}
    with engine.connect() as connection:
        version = connection.execute(text("SELECT version_num FROM alembic_version"))
        assert version.scalar_one() == "later"
