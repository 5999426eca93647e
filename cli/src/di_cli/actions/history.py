"""Connection to di-history with the user's permissions, or those of a service account."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from di_cli.access.credentials import authority_pem
from di_cli.access.history import History, HistoryAddress, reached, token_for
from di_cli.session import Session


@contextmanager
def open_history(
    session: Session, address: HistoryAddress, *, context: str | None = None
) -> Iterator[History]:
    """Return di-history, with the token of `token_for`.

    Args:
        context: of the kubeconfig, for a port-forward.

    Raises:
        CommandError: there is no connection to it or no token, or the CA file is unreadable.
    """
    pem = authority_pem(address.authority)
    with reached(address.server, context=context) as route:
        token, of = token_for(
            session.access.config, session.client, session.namespace, address.account
        )
        history = History(
            server=route.url,
            token=token,
            account=of,
            authority=pem,
            tls_server_name=address.tls_server_name,
        )
        with history.with_connections() as found:
            yield found
