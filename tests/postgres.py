"""A PostgreSQL server of a test's own: the distribution's, in a folder, on a unix socket."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.failures.sources import shown_log
from tests.waiting import wait_until
from tools.prepare.debian import POSTGRES

_ACCOUNT = "postgres"
_PORT = 5432


@contextmanager
def running_postgres() -> Iterator[Path]:
    """Run one; yields the folder of its socket. Databases in it are made by `new_database`."""
    programs = _programs()
    # Short: the path of a unix socket has 107 bytes at most.
    folder = Path(tempfile.mkdtemp(prefix="pg-"))
    # The server refuses to run as root.
    account = _ACCOUNT if os.geteuid() == 0 else None
    if account:
        shutil.chown(folder, account)
    data = folder / "data"
    try:
        subprocess.run(
            [programs / "initdb", "-D", data, "-A", "trust", "-U", _ACCOUNT, "-N", "-E", "UTF8"],
            check=True,
            timeout=120,
            stdout=subprocess.DEVNULL,
            user=account,
            cwd="/",
        )
        options = ("fsync=off", "full_page_writes=off", "max_connections=40", "jit=off")
        with (folder / "log").open("wb") as log:
            server = subprocess.Popen(
                [
                    *(programs / "postgres", "-D", data, "-k", folder, "-p", str(_PORT)),
                    *("-c", "listen_addresses="),
                    *(part for option in options for part in ("-c", option)),
                ],
                stdout=subprocess.DEVNULL,
                stderr=log,
                user=account,
                cwd="/",
            )
        try:
            with shown_log(folder / "log", "postgresql"):
                wait_until(lambda: _answers(programs, folder), what="PostgreSQL to answer")
                yield folder
        finally:
            # At once: nothing of it is wanted any more.
            server.send_signal(3)
            server.wait(60)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def new_database(folder: Path, name: str) -> str:
    """Make a database; returns its URL."""
    subprocess.run(
        [
            *(_programs() / "createdb", "-h", folder, "-p", str(_PORT), "-U", _ACCOUNT, name),
        ],
        check=True,
        timeout=60,
        cwd="/",
    )
    return f"postgresql://{_ACCOUNT}@/{name}?host={folder}&port={_PORT}"


def _answers(programs: Path, folder: Path) -> bool:
    found = subprocess.run(
        [programs / "pg_isready", "-h", folder, "-p", str(_PORT)],
        check=False,
        timeout=60,
        stdout=subprocess.DEVNULL,
        cwd="/",
    )
    return found.returncode == 0


def _programs() -> Path:
    """The folder of the newest version's programs."""
    POSTGRES.ensure()
    return max((path.parent for path in POSTGRES.found()), key=lambda path: int(path.parent.name))
