"""The asynchronous API client over raw dicts."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar, overload

from typing_extensions import override

from di_api.wording import reason_of
from di_kube import pages, wire
from di_kube.config import KubeConfig
from di_kube.errors import Gone
from di_kube.http import Broken, Connections, NoConnection, Server, TooLarge
from di_kube.pages import Decode, Version
from di_kube.resources import Resource
from di_kube.sockets import Sockets
from di_kube.streams import events, read_bounded
from di_kube.verbs import Verbs
from di_kube.wire import Object, Objects, Target

_LIST_ATTEMPTS = 3
# Objects of a page that are transformed before other tasks run; a millisecond or two.
_TRANSFORM_AT_ONCE = 100
P = TypeVar("P")
T = TypeVar("T")
_NON_RESOURCE = Resource(group="", version="", plural="-", kind="Path", namespaced=False)


def _as_it_is(obj: Object) -> Object:
    return obj


class KubeClient(Verbs[Coroutine[Any, Any, Object]]):
    """Client of one API server. Enter it as a context manager to open its connections.

    Every method raises one of `di_kube.errors`. `timeout` is the maximum time in seconds of a
    request once it has a connection (default 10), and `connect_timeout` that for a connection. No
    request is retried, because only the caller knows whether that is safe.

    `on_date` is called with the Date of every response that has one: the API server's clock.

    Attributes:
        requests: finished requests by (verb, plural, code); code 0 means no response.
    """

    def __init__(
        self,
        *,
        config: KubeConfig,
        connections: int = 16,
        timeout: float = wire.DEFAULT_TIMEOUT,
        connect_timeout: float = 5.0,
        on_date: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._config = config
        self._on_date = on_date
        self._timeout = timeout
        self._connect_timeout = connect_timeout
        self._connections: Connections | None = None
        self._sockets = Sockets()
        # Waiting for a connection must not count against a request's timeout: of a thousand
        # concurrent creates some would fail for waiting, not for the server.
        self._slots = asyncio.Semaphore(connections)
        self.requests: Counter[tuple[str, str, int]] = Counter()

    async def __aenter__(self) -> Self:
        secure = self._config.server.startswith("https:")
        tls = self._config.ssl_context() if secure else None
        server = Server(
            url=self._config.server,
            tls=tls,
            tls_name=self._config.tls_server_name,
            proxy=self._config.proxy if secure else None,
        )
        self._connections = Connections(server, sockets=self._sockets, max_body=wire.MAX_BODY)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._connections is not None:
            self._connections.close()
        self._connections = None
        await self._sockets.close()

    @overload
    async def list(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        label_selector: str | None = None,
        field_selector: str | None = None,
        limit: int = wire.PAGE,
        timeout: float | None = None,
    ) -> tuple[Objects, str]: ...

    @overload
    async def list(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        label_selector: str | None = None,
        field_selector: str | None = None,
        limit: int = wire.PAGE,
        timeout: float | None = None,
        transform: Callable[[Object], T],
    ) -> tuple[Sequence[T], str]: ...

    async def list(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        label_selector: str | None = None,
        field_selector: str | None = None,
        limit: int = wire.PAGE,
        timeout: float | None = None,
        transform: Callable[[Object], Any] = _as_it_is,
    ) -> tuple[Sequence[Any], str]:
        """Read a whole collection, `limit` objects per request; `timeout` is for each request.

        `transform` is applied to each object before the next page is read, so a large collection
        takes only the memory of the results.

        Returns:
            The objects and the resource version to watch from.

        Raises:
            Gone: the pages expired three times.
        """
        return await self._list(
            Target(resource, namespace),
            {"labelSelector": label_selector, "fieldSelector": field_selector, "limit": limit},
            timeout=timeout,
            accept=wire.JSON,
            decode=pages.objects,
            transform=transform,
        )

    async def list_versions(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        label_selector: str | None = None,
        transform: Callable[[Version], T],
    ) -> tuple[Sequence[T], str]:
        """Read which objects of a collection there are, and their versions, for half the API
        server's work and a tenth of the client's.

        Returns:
            What `transform` makes of each, and the resource version of the collection.

        Raises:
            Gone: the pages expired three times.
        """
        return await self._list(
            Target(resource, namespace),
            {"labelSelector": label_selector, "limit": pages.VERSIONS_PAGE},
            timeout=None,
            accept=wire.METADATA_LIST,
            decode=pages.versions,
            transform=transform,
        )

    async def watch(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        resource_version: str,
        label_selector: str | None = None,
        field_selector: str | None = None,
        timeout_seconds: int,
        send_initial_events: bool = False,
        silence: float = wire.WATCH_SILENCE,
        opened: Callable[[], None] = lambda: None,
    ) -> AsyncGenerator[tuple[str, Object], None]:
        """Watch a collection; yields (type, object) until the server ends the stream.

        Types are ADDED, MODIFIED, DELETED and BOOKMARK (only its resourceVersion counts). ERROR
        events are raised.

        Args:
            resource_version: where to start; "" with `send_initial_events`.
            timeout_seconds: when the server ends the stream.
            send_initial_events: begin with ADDED for each existing object, then a BOOKMARK
                annotated k8s.io/initial-events-end (Kubernetes 1.32 or newer; older: Invalid).
            silence: seconds without a byte after which the stream is closed.
            opened: called when the API server begins its response.

        Raises:
            Gone: `resource_version` is too old.
            Silent: no byte arrived for `silence` seconds.
            Unavailable: the stream broke (WatchCut), or got no response.
        """
        query = wire.watch_query(
            resource_version=resource_version or None,
            label_selector=label_selector,
            field_selector=field_selector,
            timeout_seconds=timeout_seconds,
        )
        if send_initial_events:
            query |= {"sendInitialEvents": True, "resourceVersionMatch": "NotOlderThan"}
        target = Target(resource, namespace)
        path = wire.url_path(resource.path(namespace), query)
        connections, code = _opened(self._connections), 0
        try:
            async with connections.stream(
                path,
                wire.headers(self._config.authorization()),
                connect_seconds=self._connect_timeout,
                seconds=silence,
            ) as stream:
                code = stream.code
                if code >= 300:
                    raw = await read_bounded(stream, target, silence)
                    raise wire.decode_error(code, raw, stream.headers, target)
                opened()
                async for event in events(stream, target, silence):
                    yield event
        except TimeoutError as error:
            if not code:
                raise target.broken("Timeout", _reason_of(error, silence)) from error
            raise target.silent(silence) from error
        except (Broken, OSError) as error:
            reason = "WatchCut" if code else "ConnectionError"
            raise target.broken(reason, reason_of(error)) from error
        finally:
            self.requests["WATCH", resource.plural, code] += 1

    async def raw(self, path: str, *, timeout: float | None = None) -> bytes:
        """GET a path that is not a resource (/metrics, /openapi/v3, ...) and return its bytes."""
        return await self._send("GET", path, Target(_NON_RESOURCE, name=path), timeout=timeout)

    async def pour(
        self, path: str, take: Callable[[bytes], None], *, timeout: float | None = None
    ) -> None:
        """GET a path as `raw` does, and pass on the body, of any length, in parts.

        After an error `take` may have been called with some parts. Its own errors are raised.
        """
        target = Target(_NON_RESOURCE, name=path)
        seconds = self._timeout if timeout is None else timeout
        connections, code = _opened(self._connections), 0
        async with self._slots:
            try:
                async with (
                    asyncio.timeout(seconds),
                    connections.stream(
                        path,
                        wire.headers(self._config.authorization()),
                        connect_seconds=min(seconds, self._connect_timeout),
                        seconds=seconds,
                    ) as stream,
                ):
                    code = stream.code
                    if code >= 300:
                        raw = await read_bounded(stream, target, seconds)
                        raise wire.decode_error(code, raw, stream.headers, target)
                    async for part in stream.parts():
                        take(part)
            except TimeoutError as error:
                raise target.broken("Timeout", _reason_of(error, seconds)) from error
            except (Broken, OSError) as error:
                raise target.broken("ConnectionError", reason_of(error)) from error
            finally:
                self.requests["GET", target.resource.plural, code] += 1

    async def _list(
        self,
        target: Target,
        query: Mapping[str, str | int | None],
        *,
        timeout: float | None,
        accept: str,
        decode: Decode[P],
        transform: Callable[[P], T],
    ) -> tuple[Sequence[T], str]:
        for attempt in range(_LIST_ATTEMPTS):
            try:
                return await self._list_pages(
                    target,
                    query,
                    timeout=timeout,
                    accept=accept,
                    decode=decode,
                    transform=transform,
                )
            except Gone:
                if attempt == _LIST_ATTEMPTS - 1:
                    raise
        raise AssertionError("unreachable: the last attempt returns or raises")

    async def _list_pages(
        self,
        target: Target,
        query: Mapping[str, str | int | None],
        *,
        timeout: float | None,
        accept: str,
        decode: Decode[P],
        transform: Callable[[P], T],
    ) -> tuple[Sequence[T], str]:
        items: list[T] = []
        token = ""
        while True:
            path = wire.url_path(
                target.resource.path(target.namespace), {**query, "continue": token or None}
            )
            raw = await self._send("GET", path, target, accept=accept, timeout=timeout)
            # Other tasks run between the parts: each part of five hundred pods takes about twenty
            # milliseconds.
            await asyncio.sleep(0)
            # Until the page is freed: a garbage collection would traverse all of it and all older
            # objects, which takes three times as long as everything else.
            with wire.collector_paused():
                page = decode(raw, target)
                while page.items:
                    await asyncio.sleep(0)
                    items += map(transform, page.items[:_TRANSFORM_AT_ONCE])
                    del page.items[:_TRANSFORM_AT_ONCE]
            token = page.next
            if not token:
                return items, page.version

    @override
    async def _call(
        self,
        method: str,
        path: str,
        target: Target,
        *,
        body: object = None,
        content_type: str = wire.JSON,
        timeout: float | None,
    ) -> Object:
        raw = await self._send(
            method, path, target, body=body, content_type=content_type, timeout=timeout
        )
        return wire.decode_object(raw, target)

    async def _send(
        self,
        method: str,
        path: str,
        target: Target,
        *,
        body: object = None,
        content_type: str = wire.JSON,
        accept: str = wire.JSON,
        timeout: float | None,
    ) -> bytes:
        connections = _opened(self._connections)
        seconds = self._timeout if timeout is None else timeout
        data = None if body is None else wire.encode(body)
        code = 0
        async with self._slots:
            headers = wire.headers(
                self._config.authorization(),
                content_type if data is not None else None,
                accept=accept,
            )
            try:
                async with asyncio.timeout(seconds):
                    answer = await connections.ask(
                        method,
                        path,
                        headers,
                        data,
                        connect_seconds=min(seconds, self._connect_timeout),
                    )
                code = answer.code
            except TimeoutError as error:
                raise target.broken("Timeout", _reason_of(error, seconds)) from error
            except TooLarge as error:
                raise target.broken("BadBody", str(error)) from error
            except (Broken, OSError) as error:
                raise target.broken("ConnectionError", reason_of(error)) from error
            finally:
                self.requests[method, target.resource.plural, code] += 1
        if date := answer.headers.get("Date"):
            self._on_date(date)
        if code >= 300:
            raise wire.decode_error(code, answer.body, answer.headers, target)
        return answer.body


def _reason_of(error: TimeoutError, seconds: float) -> str:
    return str(error) if isinstance(error, NoConnection) else f"no answer within {seconds:g} s"


def _opened(connections: T | None) -> T:
    if connections is None:
        raise RuntimeError("the client is not open: use `async with KubeClient(...)`")
    return connections
