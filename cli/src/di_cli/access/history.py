"""Client of di-history, with the user's own token or that of a service account."""

from __future__ import annotations

import json
import os
import shutil
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from io import TextIOWrapper
from ipaddress import ip_address
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, BinaryIO, Final, cast
from urllib.parse import quote, urlsplit

import urllib3
from urllib3.exceptions import ProtocolError

from di_api.field_error import items, mapping
from di_api.names import HISTORY_NAME, SYSTEM_NAMESPACE
from di_cli.errors import CommandError
from di_cli.exit_codes import BY_STATUS, ExitCode
from di_kube.config import KubeConfig
from di_kube.errors import Forbidden, NotFound
from di_kube.resources import SERVICE_ACCOUNTS
from di_kube.sync import SyncKubeClient

SERVER_VARIABLE: Final = "DI_HISTORY_URL"
TOKEN_SECONDS: Final = 600
"""Seconds for which the token of a service account is valid."""
_OWN_ACCOUNT: Final = f"{SYSTEM_NAMESPACE}/{HISTORY_NAME}"
_PORT: Final = 8080
"""Port of the pod for connections through the API server."""
_SECONDS: Final = 20.0
_CONNECTIONS: Final = 4
"""Number of connections that stay open between requests."""
_MOST_BYTES: Final = 64 << 20
Object = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryAddress:
    """The place of di-history, and the account that reads it.

    Attributes:
        server: its URL; None: that of the environment, else by a port-forward.
        account: service account of the token, NAME or NAMESPACE/NAME; None: the user's own token.
        authority: file with its CA certificates, PEM; None: the system's.
        tls_server_name: expected name in its certificate; empty means the URL's host.
    """

    server: str | None = None
    account: str | None = None
    authority: Path | None = None
    tls_server_name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """Access to a di-history that responds.

    Attributes:
        server: base URL.
        account: service account of the token, NAME or NAMESPACE/NAME; empty: it is the user's own.
        authority: its CA certificates, PEM; empty means the system's.
        tls_server_name: expected name in its certificate; empty means the URL's host.
        seconds: timeout of a request.
        pool: connections that requests share; None: each request has one of its own.
    """

    server: str
    token: str = field(repr=False)
    account: str
    authority: str = ""
    tls_server_name: str = ""
    seconds: float = _SECONDS
    pool: urllib3.PoolManager | None = field(default=None, repr=False, compare=False)

    @contextmanager
    def with_connections(self) -> Iterator[History]:
        """Yield the same access with connections that requests of the body share."""
        with self._new_pool() as pool:
            yield replace(self, pool=pool)

    def json(self, namespace: str, job: str, rest: str = "", **query: str) -> Object:
        """Return the stored data of a job.

        Raises:
            CommandError: there is none, or the user has no permission.
        """
        found: Object = json.loads(self._ask(namespace, job, rest, query))
        return found

    def jobs(self, namespace: str, **query: str) -> list[Object]:
        """Return the stored jobs of a namespace, the newest first; raises as `json` does."""
        raw = self.get("/jobs", {"namespace": namespace, **query}, namespace)
        return [dict(each) for each in map(mapping, items(json.loads(raw).get("jobs")))]

    def text(self, namespace: str, job: str, rest: str, **query: str) -> str:
        """Return a log of a job's pod; raises as `json` does."""
        return self._ask(namespace, job, rest, query).decode("utf-8", "replace")

    def lines(self, namespace: str, job: str, rest: str, **query: str) -> Iterator[str]:
        """Yield a log's lines as they arrive, of any length; raises as `json` does, also between
        lines.
        """
        with self._open(_path(namespace, job, rest), query, namespace) as response:
            # Otherwise it would be closed with its last byte, before the last line is read.
            response.auto_close = False
            raw = cast("BinaryIO", response)
            for line in TextIOWrapper(raw, encoding="utf-8", errors="replace"):
                yield line.removesuffix("\n")

    def _ask(self, namespace: str, job: str, rest: str, query: dict[str, str]) -> bytes:
        return self.get(_path(namespace, job, rest), query, namespace)

    def get(self, path: str, query: Mapping[str, str], namespace: str) -> bytes:
        """Return the response to any path below `/v1`; `namespace` selects the token. Raises as
        `json` does.
        """
        try:
            return self._body(path, query, namespace)
        except CommandError as error:
            if self.pool is None or not isinstance(error.__cause__, ProtocolError):
                raise
            # A server can close a kept connection at the moment of its use.
            self.pool.clear()
            return self._body(path, query, namespace)

    def _body(self, path: str, query: Mapping[str, str], namespace: str) -> bytes:
        with self._open(path, query, namespace) as response:
            return response.read(_MOST_BYTES)

    @contextmanager
    def _open(
        self, path: str, query: Mapping[str, str], namespace: str
    ) -> Iterator[urllib3.HTTPResponse]:
        """Yield a successful response with an unread body."""
        try:
            with self._new_pool() if self.pool is None else nullcontext(self.pool) as pool:
                response = pool.request(
                    "GET",
                    f"{self.server}/v1{path}",
                    fields=dict(query),
                    headers={"Authorization": f"Bearer {self.token}"},
                    redirect=False,
                    preload_content=False,
                )
                try:
                    if response.status != 200:
                        raw = response.read(_MOST_BYTES)
                        raise self._refusal(response.status, raw, namespace)
                    yield cast("urllib3.HTTPResponse", response)
                finally:
                    response.close()
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise CommandError(
                f"di-history at {self.server} does not answer",
                where=str(error),
                remedy="di history --help: --server says where it is",
                code=ExitCode.UNAVAILABLE,
            ) from error

    def _new_pool(self) -> urllib3.PoolManager:
        name = self.tls_server_name
        expected: dict[str, Any] = {"server_hostname": name, "assert_hostname": name}
        return urllib3.PoolManager(
            ssl_context=ssl.create_default_context(cadata=self.authority or None),
            retries=False,
            timeout=self.seconds,
            maxsize=_CONNECTIONS,
            **(expected if name else {}),
        )

    def _refusal(self, status: int, raw: bytes, namespace: str) -> CommandError:
        try:
            message = str(json.loads(raw)["message"])
        except (ValueError, KeyError, TypeError):
            message = f"its answer ({status}) is none of di-history's"
        remedy = "--namespace, or di list" if status == 404 else "try again"
        if status in (401, 403):
            place, _, name = self.account.rpartition("/")
            remedy = (
                f"kubectl -n {namespace} create rolebinding {name}-view --clusterrole view "
                f"--serviceaccount {place or namespace}:{name}"
                if name
                else f"kubectl -n {namespace} auth can-i --list; the role view is enough"
            )
        return CommandError(
            f"di-history refused it ({status})",
            where=message,
            remedy=remedy,
            code=BY_STATUS.get(status, ExitCode.FAILED),
        )


def _path(namespace: str, job: str, rest: str) -> str:
    return f"/jobs/{quote(namespace, safe='')}/{quote(job, safe='')}{rest}"


def own_token(config: KubeConfig) -> str | None:
    """Return the user's bearer token; None: they sign in with a certificate or a password."""
    scheme, _, token = (config.authorization() or "").partition(" ")
    return token.strip() or None if scheme.lower() == "bearer" else None


def token_for(
    config: KubeConfig, client: SyncKubeClient, namespace: str, account: str | None
) -> tuple[str, str]:
    """Return a token for di-history, and its service account; empty: it is the user's own token.

    A user with a certificate has no token. For an administrator it is then that of di-history's
    own account, which can read the jobs of all namespaces that are recorded.

    Raises:
        ApiError: the user cannot create a token of the given account.
        CommandError: the user has no token, and is not allowed to create one of di-history.
    """
    if account is not None:
        place, _, name = account.rpartition("/")
        return _created_token(client, place or namespace, name), account
    if token := own_token(config):
        return token, ""
    try:
        return _created_token(client, SYSTEM_NAMESPACE, HISTORY_NAME), _OWN_ACCOUNT
    except (Forbidden, NotFound) as error:
        raise CommandError(
            "your kubeconfig has no token to show to di-history",
            where="the API server knows you by a certificate or a password",
            remedy="--account NAME, of a service account that can read the jobs",
            code=ExitCode.NOT_ALLOWED,
        ) from error


def _created_token(client: SyncKubeClient, namespace: str, account: str) -> str:
    body = {
        "metadata": {"name": account},
        "spec": {"audiences": [HISTORY_NAME], "expirationSeconds": TOKEN_SECONDS},
    }
    made = client.create(SERVICE_ACCOUNTS, body, namespace, subresource="token")
    return str(made["status"]["token"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """The way to di-history.

    Attributes:
        url: base URL.
        is_open: returns whether it still leads there. After the end of a port-forward another
            program can take its port, and would get the token.
    """

    url: str
    is_open: Callable[[], bool] = lambda: True


@contextmanager
def reached(server: str | None, *, context: str | None) -> Iterator[Route]:
    """Yield the way to di-history while the body runs: the given URL, or a port-forward.

    Raises:
        CommandError: plain HTTP would reveal the token, or there is no connection.
    """
    server = server or os.environ.get(SERVER_VARIABLE)
    if server is None:
        with _forwarded(context) as route:
            yield route
        return
    parts = urlsplit(server)
    if parts.scheme != "https" and not (parts.scheme == "http" and _is_here(parts.hostname)):
        raise CommandError(
            "a token is shown to an https address alone, or to one of this machine",
            where=f"--server is {server!r}",
            remedy=f"kubectl -n {SYSTEM_NAMESPACE} port-forward deployment/{HISTORY_NAME} {_PORT}, "
            f"then --server http://localhost:{_PORT}",
        )
    yield Route(url=server.rstrip("/"))


@contextmanager
def _forwarded(context: str | None) -> Iterator[Route]:
    """Run kubectl's port-forward to its pod."""
    program = shutil.which("kubectl")
    chosen = ["--context", context] if context else []
    words = ["--namespace", SYSTEM_NAMESPACE, "port-forward", f"deployment/{HISTORY_NAME}"]
    if program is None:
        raise CommandError(
            "kubectl is not on the PATH, and the way to di-history is its port-forward",
            remedy=f"install kubectl; or --server, or {SERVER_VARIABLE}, says where it is",
        )
    with subprocess.Popen(
        [program, *chosen, *words, f":{_PORT}", "--address", "127.0.0.1"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            url = f"http://127.0.0.1:{_port_of(process)}"
            yield Route(url=url, is_open=lambda: process.poll() is None)
        finally:
            process.terminate()


def _port_of(process: subprocess.Popen[str]) -> int:
    """Return the local port in the output of the port-forward."""
    said: SimpleQueue[str] = SimpleQueue()
    assert process.stdout is not None, "it is a pipe"
    assert process.stderr is not None, "it is a pipe"
    stdout = process.stdout
    threading.Thread(target=lambda: said.put(stdout.readline()), daemon=True).start()
    try:
        line = said.get(timeout=_SECONDS)
    except Empty:
        line = ""
    _, _, rest = line.partition("127.0.0.1:")
    port = rest.partition(" ")[0]
    if port.isdecimal():
        return int(port)
    process.terminate()
    raise CommandError(
        "there is no way to di-history",
        where=process.stderr.read().strip() or "kubectl port-forward did not begin",
        remedy=f"is it installed (history.enabled=true)? else --server, or {SERVER_VARIABLE}",
        code=ExitCode.UNAVAILABLE,
    )


def _is_here(host: str | None) -> bool:
    try:
        return host == "localhost" or ip_address(host or "").is_loopback
    except ValueError:
        return False
