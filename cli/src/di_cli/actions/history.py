"""Connection to di-history with the user's permissions, or those of a service account."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from di_cli.access.credentials import authority_pem
from di_cli.access.history import History, reached, token_for
from di_cli.session import Session


@contextmanager
def open_history(
    session: Session,
    server: str | None,
    *,
    account: str | None,
    authority: Path | None,
    tls_server_name: str,
    context: str | None,
) -> Iterator[History]:
    """Return di-history, with the token of `token_for`.

    Raises:
        CommandError: there is no connection to it or no token, or the CA file is unreadable.
    """
    pem = authority_pem(authority)
    with reached(server, context=context) as route:
        token, of = token_for(session.access.config, session.client, session.namespace, account)
        yield History(
            server=route.url,
            token=token,
            account=of,
            authority=pem,
            tls_server_name=tls_server_name,
        )
