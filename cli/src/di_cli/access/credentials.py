"""Tokens for di-server, stored until they expire in a file that only its user can read."""

from __future__ import annotations

import json
import os
import ssl
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import datetime
from hashlib import sha256
from pathlib import Path

from di_cli.errors import CommandError


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """A token, and the server that it is for.

    Attributes:
        cluster: the API server that issued it.
        namespace: of the jobs that it is for.
        server: base URL of di-server.
        expires: RFC 3339.
        authority: CA certificates of di-server, PEM; empty means the system's.
        tls_server_name: expected name in its certificate; empty means the URL's host.
    """

    cluster: str
    namespace: str
    server: str
    token: str = field(repr=False)
    expires: str
    authority: str = ""
    tls_server_name: str = ""


def authority_pem(file: Path | None) -> str:
    """Return the file's content, if it has valid certificates; empty without a file: the system's.

    Raises:
        CommandError: the file is unreadable or invalid.
    """
    if file is None:
        return ""
    try:
        pem = file.read_text()
        ssl.create_default_context(cadata=pem)
        return pem
    except (OSError, ValueError) as error:
        raise CommandError("the authority cannot be read", where=f"{file}: {error}") from error


def keep(login: Login) -> None:
    """Store a login in one step; no other user can read it at any moment."""
    path = _path(login.cluster, login.namespace)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    new = path.with_suffix(f".{os.getpid()}")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w") as file:
            json.dump(asdict(login), file)
        new.replace(path)
    except BaseException:
        with suppress(FileNotFoundError):
            new.unlink()
        raise


def login_for(cluster: str, namespace: str, now: datetime) -> Login | None:
    """Return the stored login, if it is valid; an expired one is deleted."""
    path = _path(cluster, namespace)
    try:
        found = Login(**json.loads(path.read_text()))
        expires = datetime.fromisoformat(found.expires)
    except (OSError, ValueError, TypeError):
        return None
    if expires > now:
        return found
    forget(cluster, namespace)
    return None


def forget(cluster: str, namespace: str) -> None:
    """Delete the stored login."""
    with suppress(FileNotFoundError):
        _path(cluster, namespace).unlink()


def _path(cluster: str, namespace: str) -> Path:
    home = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    name = sha256(f"{cluster}\n{namespace}".encode()).hexdigest()[:32]
    return Path(home) / "di" / f"{name}.json"
