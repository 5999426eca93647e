"""Access to di-history with the user's permissions, in the same way as `di history`."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import Final

from di_cli.access.history import TOKEN_SECONDS, History, Route, reached, token_for
from di_cli.errors import CommandError
from di_cli.exit_codes import ExitCode
from di_dashboard.history.kept import Away, NotKept, Refused
from di_kube.config import KubeConfig
from di_kube.errors import ApiError
from di_kube.sync import SyncKubeClient

_TOKEN_USED: Final = 0.8 * TOKEN_SECONDS
"""Seconds for which a token is used; it is valid for longer."""
_SECONDS: Final = 8.0
_MOST_TOKENS: Final = 64
_PATIENCE: Final = 1.0


class HistoryClient:
    """Sends requests to di-history, with the token of `token_for`. Thread-safe.

    Args:
        config: has the user's own token.
        client: has the user's permissions; it creates tokens of accounts.
        server: base URL; None: $DI_HISTORY_URL, or kubectl's port-forward, kept open while the page
            is served.
        account: of the token, as in `token_for`.
    """

    def __init__(
        self,
        config: KubeConfig,
        client: SyncKubeClient,
        *,
        server: str | None = None,
        account: str | None = None,
        authority: str = "",
        tls_server_name: str = "",
        context: str | None = None,
    ) -> None:
        self._config = config
        self._client = client
        self._server = server
        self._account = account
        self._authority = authority
        self._tls_server_name = tls_server_name
        self._context = context
        self._lock = threading.Lock()
        self._way = ExitStack()
        self._reached: tuple[Route, History] | None = None
        self._tokens: dict[str, tuple[float, str, str]] = {}

    def __call__(self, namespace: str, path: str, query: Mapping[str, str]) -> bytes:
        """Return the response to a path below `/v1`."""
        try:
            history = self._reach()
            token, account = self._token(namespace)
            return replace(history, token=token, account=account).get(path, query, namespace)
        except ApiError as error:
            words = f"no token of account {self._account}: {error.message or error.reason}"
            raise Refused(words) from error
        except CommandError as error:
            words = ": ".join(part for part in (error.what, error.where) if part)
            if error.code is ExitCode.NOT_FOUND:
                raise NotKept(words) from error
            if error.code is ExitCode.NOT_ALLOWED:
                self._forget(namespace)
                raise Refused(words) from error
            self._leave()
            raise Away(words) from error

    def close(self) -> None:
        """Close the port-forward; one that is being opened ends with the process."""
        if self._lock.acquire(timeout=_PATIENCE):
            try:
                self._reached = None
                self._way.close()
            finally:
                self._lock.release()

    def _reach(self) -> History:
        """Return the access, without a token; its connections stay open between requests."""
        with self._lock:
            if self._reached is not None and not self._reached[0].is_open():
                self._reached = None
                self._way.close()
            if self._reached is None:
                route = self._way.enter_context(reached(self._server, context=self._context))
                history = History(
                    server=route.url,
                    token="",
                    account="",
                    authority=self._authority,
                    tls_server_name=self._tls_server_name,
                    seconds=_SECONDS,
                )
                self._reached = route, self._way.enter_context(history.with_connections())
            return self._reached[1]

    def _leave(self) -> None:
        with self._lock:
            self._reached = None
            self._way.close()

    def _token(self, namespace: str) -> tuple[str, str]:
        """Return a token, and its account."""
        now = time.monotonic()
        with self._lock:
            until, token, account = self._tokens.get(namespace, (0.0, "", ""))
            if now < until:
                return token, account
        token, account = token_for(self._config, self._client, namespace, self._account)
        if not account:
            # The configuration reads it again when it is replaced.
            return token, account
        with self._lock:
            while len(self._tokens) >= _MOST_TOKENS:
                self._tokens.pop(next(iter(self._tokens)))
            self._tokens[namespace] = (now + _TOKEN_USED, token, account)
        return token, account

    def _forget(self, namespace: str) -> None:
        with self._lock:
            self._tokens.pop(namespace, None)
