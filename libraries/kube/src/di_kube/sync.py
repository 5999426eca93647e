"""The blocking API client, for services that handle each request in a thread."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Self

import urllib3
from typing_extensions import override
from urllib3.exceptions import (
    ConnectTimeoutError,
    EmptyPoolError,
    HTTPError,
    NewConnectionError,
)
from urllib3.exceptions import TimeoutError as HTTPTimeoutError

from di_kube import wire
from di_kube.config import KubeConfig
from di_kube.resources import Resource
from di_kube.verbs import Verbs
from di_kube.wire import Object, Objects, Target

_CONNECT_TIMEOUT = 3.0
_CHUNK = 1 << 16


class SyncKubeClient(Verbs[Object]):
    """Client of one API server; one object serves all threads.

    Every method raises one of `di_kube.errors` and ends within its `timeout` (seconds, default 10),
    the wait for a free connection included. No request is retried.

    Args:
        config: address and credentials.
        connections: size of the pool; further threads wait for a connection.
        timeout: seconds for one request.
        clock: monotonic seconds.
        on_date: called with the Date of every response that has one: the API server's clock.
    """

    def __init__(
        self,
        *,
        config: KubeConfig,
        connections: int = 16,
        timeout: float = wire.DEFAULT_TIMEOUT,
        clock: Callable[[], float] = time.monotonic,
        on_date: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._config = config
        self._timeout = timeout
        self._clock = clock
        self._on_date = on_date
        self._pool = _pool(config, connections)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the idle connections."""
        self._pool.close()

    def list(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        label_selector: str | None = None,
        field_selector: str | None = None,
        limit: int = wire.PAGE,
        timeout: float | None = None,
    ) -> tuple[Objects, str]:
        """Read a whole collection, `limit` objects per request; `timeout` is for all of them.

        Raises:
            Gone: the pages expired.
        """
        deadline = self._clock() + (self._timeout if timeout is None else timeout)
        query = {
            "labelSelector": label_selector,
            "fieldSelector": field_selector,
            "limit": str(limit),
        }
        target = Target(resource, namespace)
        pages = [*self._pages(target, query, lambda: deadline - self._clock())]
        version = pages[-1][1].get("resourceVersion", "")
        return [each for objects, _ in pages for each in objects], version

    def each(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        label_selector: str | None = None,
        on_page: Callable[[int, int | None], None] = lambda read, left: None,
    ) -> Iterator[Object]:
        """Yield the objects of a collection, and hold no more than a page of them. The timeout is
        that of a page.

        Args:
            on_page: called for each page with its number of objects and that of the objects to
                come, which is None where the API server does not count them: with a selector.

        Raises:
            Gone: the pages expired.
        """
        query = {"labelSelector": label_selector, "limit": str(wire.PAGE)}
        target = Target(resource, namespace)
        for objects, metadata in self._pages(target, query, lambda: self._timeout):
            left = metadata.get("remainingItemCount") if metadata.get("continue") else 0
            on_page(len(objects), left)
            yield from objects

    def _pages(
        self, target: Target, query: Mapping[str, str | None], timeout: Callable[[], float]
    ) -> Iterator[tuple[Objects, Object]]:
        """Yield the objects of each page, and its metadata."""
        token: str | None = None
        while True:
            path = wire.url_path(
                target.resource.path(target.namespace), {**query, "continue": token}
            )
            page = self._call("GET", path, target, timeout=timeout())
            metadata = page.get("metadata", {})
            yield wire.take_items(page, target.resource), metadata
            token = metadata.get("continue")
            if not token:
                return

    def watch(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        resource_version: str,
        label_selector: str | None = None,
        field_selector: str | None = None,
        timeout_seconds: int,
    ) -> Iterator[tuple[str, Object]]:
        """Watch a collection; yields (type, object) until the server ends the stream.

        Types are ADDED, MODIFIED, DELETED and BOOKMARK (only its resourceVersion counts). ERROR
        events are raised; a cut stream is Unavailable, one that is silent for 70 s Silent.
        """
        query = wire.watch_query(
            resource_version=resource_version,
            label_selector=label_selector,
            field_selector=field_selector,
            timeout_seconds=timeout_seconds,
        )
        target = Target(resource, namespace)
        path = wire.url_path(resource.path(namespace), query)
        for line in self.lines(path, target, silence=wire.WATCH_SILENCE):
            yield wire.decode_event(line, target)

    def lines(self, path: str, target: Target, *, silence: float) -> Iterator[bytes]:
        """Yield the lines of a streamed response, such as a pod's log, without line ends.

        A line longer than `wire.MAX_LINE` and a cut stream (WatchCut) raise Unavailable; `silence`
        seconds without a line raise Silent. Leaving the iterator closes the connection.
        """
        with self._opened(path, target, silence) as response:
            rest = b""
            try:
                while chunk := response.read1(_CHUNK):
                    *whole, rest = (rest + chunk).split(b"\n")
                    yield from (line for line in whole if line)
                    if len(rest) > wire.MAX_LINE:
                        raise target.broken("WatchCut", "a line is too long")
            except HTTPTimeoutError as error:
                raise target.silent(silence) from error
            except (HTTPError, OSError) as error:
                raise target.broken("WatchCut", str(error)) from error
            if rest:
                yield rest

    @contextmanager
    def _opened(
        self, path: str, target: Target, silence: float
    ) -> Iterator[urllib3.response.BaseHTTPResponse]:
        """Yield a response with an unread body, which is closed at the end."""
        try:
            response = self._pool.urlopen(
                "GET",
                path,
                headers=wire.headers(self._config.authorization()),
                timeout=urllib3.Timeout(connect=_CONNECT_TIMEOUT, read=silence),
                pool_timeout=self._timeout,  # type: ignore[arg-type]  # declared int, floats work
                preload_content=False,
                redirect=False,
            )
        except HTTPTimeoutError as error:
            raise target.broken("Timeout", _reason_of(error, silence)) from error
        except (HTTPError, OSError) as error:
            raise target.broken("ConnectionError", str(error)) from error
        try:
            if response.status >= 300:
                raw = self._read(response, target, self._clock() + self._timeout)
                raise wire.decode_error(response.status, raw, response.headers, target)
            yield response
        finally:
            response.close()

    @override
    def _call(
        self,
        method: str,
        path: str,
        target: Target,
        *,
        body: object = None,
        content_type: str = wire.JSON,
        timeout: float | None,
    ) -> Object:
        seconds = self._timeout if timeout is None else timeout
        deadline = self._clock() + seconds
        if seconds <= 0:
            raise target.unsent("Timeout", "no time was left")
        try:
            response = self._pool.urlopen(
                method,
                path,
                body=None if body is None else wire.encode(body),
                headers=wire.headers(
                    self._config.authorization(), content_type if body is not None else None
                ),
                timeout=urllib3.Timeout(connect=min(seconds, _CONNECT_TIMEOUT), read=seconds),
                pool_timeout=seconds,  # type: ignore[arg-type]  # declared int, floats work
                preload_content=False,
                redirect=False,
            )
            try:
                raw = self._read(response, target, deadline)
            except BaseException:
                # Unread bytes would be mistaken for the next response on this connection.
                response.close()
                raise
            response.release_conn()
        except (NewConnectionError, EmptyPoolError) as error:
            # A refused connection, although the library reports it as a timeout.
            raise target.unsent("ConnectionError", str(error)) from error
        except ConnectTimeoutError as error:
            raise target.unsent("Timeout", _reason_of(error, seconds)) from error
        except HTTPTimeoutError as error:
            raise target.broken("Timeout", _reason_of(error, seconds)) from error
        except (HTTPError, OSError) as error:
            raise target.broken("ConnectionError", str(error)) from error
        if (date := response.headers.get("Date")) is not None:
            self._on_date(date)
        if response.status >= 300:
            raise wire.decode_error(response.status, raw, response.headers, target)
        return wire.decode_object(raw, target)

    def _read(
        self, response: urllib3.response.BaseHTTPResponse, target: Target, deadline: float
    ) -> bytes:
        """Return the body; a socket timeout alone would never end a response of one byte per
        second.
        """
        chunks: list[bytes] = []
        size = 0
        while chunk := response.read1(_CHUNK):
            chunks.append(chunk)
            size += len(chunk)
            if size > wire.MAX_BODY:
                raise target.broken("BadBody", f"the answer is larger than {wire.MAX_BODY} bytes")
            if self._clock() > deadline:
                raise target.broken("Timeout", "the answer was not complete in time")
        return b"".join(chunks)


def _reason_of(error: HTTPTimeoutError, seconds: float) -> str:
    if isinstance(error, ConnectTimeoutError):
        return f"no connection within {min(seconds, _CONNECT_TIMEOUT):g} s"
    return f"no answer within {seconds:g} s"


def _pool(config: KubeConfig, connections: int) -> urllib3.HTTPConnectionPool:
    secure = config.server.startswith("https:")
    options: dict[str, Any] = {
        "maxsize": connections,
        "block": True,
        "retries": False,
        **({"ssl_context": config.ssl_context(), **_server_name(config)} if secure else {}),
    }
    if config.proxy is None or not secure:
        return urllib3.connectionpool.connection_from_url(config.server, **options)
    proxies = urllib3.ProxyManager(config.proxy.url, proxy_headers=config.proxy.headers, **options)
    return proxies.connection_from_url(config.server)


def _server_name(config: KubeConfig) -> dict[str, str]:
    name = config.tls_server_name
    return {} if name is None else {"server_hostname": name, "assert_hostname": name}
