"""Empty databases of the history, SQLite and PostgreSQL, with a writer and a reader of each."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine, text

from di_history.store.engine import migrate, open_engine
from di_history.store.reader import Reader
from di_history.store.tables import metadata
from di_history.store.writer import Writer
from tests.postgres import new_database, running_postgres


@pytest.fixture(scope="package")
def postgres() -> Iterator[Path]:
    with running_postgres() as folder:
        yield folder


@pytest.fixture(scope="package")
def migrated(postgres: Path) -> Iterator[Engine]:
    """A database for all tests that need no other."""
    engine = open_engine(new_database(postgres, "history"))
    migrate(engine)
    yield engine
    engine.dispose()


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.extended)])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def url(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database without tables."""
    if kind == "sqlite":
        return f"sqlite:///{tmp_path}/history.db"
    folder: Path = request.getfixturevalue("postgres")
    return new_database(folder, f"test_{secrets.token_hex(5)}")


@pytest.fixture
def engine(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    """A database with the tables, empty."""
    if kind == "postgresql":
        found: Engine = request.getfixturevalue("migrated")
        with found.begin() as connection:
            names = ", ".join(metadata.tables)
            connection.execute(text(f"TRUNCATE {names}"))
        yield found
        return
    engine = open_engine(f"sqlite:///{tmp_path}/history.db")
    migrate(engine)
    yield engine
    engine.dispose()


@pytest.fixture
def writer(engine: Engine) -> Writer:
    return Writer(engine, job_log_bytes=100_000, job_bytes=40 << 20)


@pytest.fixture
def reader(engine: Engine) -> Reader:
    return Reader(engine)
