"""The API over HTTP: lists, watches and writes, for clients with the owner's token."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson
from aiohttp import web

from di_kube.resources import SUBJECT_ACCESS_REVIEWS, TOKEN_REVIEWS, Resource
from di_kube.wire import JSON_PATCH, MERGE_PATCH, METADATA_LIST
from di_local.api.objects import RESOURCES, Change, Object, Objects
from di_local.api.patches import merged, patched
from di_local.api.refused import Refused
from di_local.api.selectors import Selector, selector
from di_local.api.tokens import Tokens

_BOOKMARK_SECONDS: Final = 20.0
"""Seconds between two bookmarks: clients close a stream that is silent for more than a minute."""
_MAX_BODY: Final = 3 << 20
_INITIAL_END: Final = {"k8s.io/initial-events-end": "true"}
Answer = Callable[[web.Request, "_Path"], Awaitable[web.StreamResponse]]
Logs = Callable[[web.Request, Object], Awaitable[web.StreamResponse]]
"""Responds with the log of a pod."""


@dataclass(frozen=True, slots=True)
class _Path:
    """The parsed path of a URL."""

    plural: str
    namespace: str | None
    name: str | None
    subresource: str | None

    @property
    def resource(self) -> Resource:
        if self.plural not in RESOURCES:
            raise Refused(404, "NotFound", "the server could not find the requested resource")
        return RESOURCES[self.plural]

    @property
    def key(self) -> tuple[Resource, str, str]:
        if self.namespace is None or self.name is None:
            raise Refused(405, "MethodNotAllowed", "this needs the namespace and name of an object")
        return self.resource, self.namespace, self.name


class Api:
    """The HTTP handlers; `app` is the application to serve."""

    def __init__(self, objects: Objects, tokens: Tokens, *, logs: Logs) -> None:
        self._objects = objects
        self._tokens = tokens
        self._logs = logs
        self._ended = asyncio.Event()
        self.app = web.Application(client_max_size=_MAX_BODY)
        self.app.router.add_route("*", "/{path:.*}", self._answer)

    def end(self) -> None:
        """End all watches."""
        self._ended.set()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        try:
            if not self._tokens.is_owner(request.headers.get("Authorization")):
                raise Refused(401, "Unauthorized", "the token of this run is needed")
            path = _parse(request.match_info["path"])
            methods: Mapping[str, Answer] = {
                "GET": self._read,
                "POST": self._create,
                "PUT": self._replace,
                "PATCH": self._patch,
                "DELETE": self._delete,
            }
            if request.method not in methods:
                raise Refused(405, "MethodNotAllowed", f"{request.method} is not known")
            return await methods[request.method](request, path)
        except Refused as refused:
            return _json(refused.status(), refused.code)

    async def _read(self, request: web.Request, path: _Path) -> web.StreamResponse:
        if path.name is not None:
            found = self._objects.get(*path.key)
            return await self._logs(request, found) if path.subresource == "log" else _json(found)
        query = request.query
        select = selector(
            path.namespace, query.get("labelSelector", ""), query.get("fieldSelector", "")
        )
        if query.get("watch") in ("true", "1"):
            return await self._watch(request, path.resource, select)
        version = str(self._objects.version)
        items = self._objects.list(path.resource, select)
        if request.headers.get("Accept", "") == METADATA_LIST:
            items = [{"metadata": each["metadata"]} for each in items]
        return _json(
            {
                "kind": f"{path.resource.kind}List",
                "apiVersion": path.resource.api_version,
                "metadata": {"resourceVersion": version},
                "items": items,
            }
        )

    async def _watch(
        self, request: web.Request, resource: Resource, select: Selector
    ) -> web.StreamResponse:
        changes: asyncio.Queue[Change] = asyncio.Queue()
        # No await between the first events and the subscription, so that no change is missed.
        first = self._beginning(request.query, resource, select, changes)
        unsubscribe = self._objects.subscribe(changes.put_nowait)
        stream = web.StreamResponse(headers={"Content-Type": "application/json"})
        try:
            await stream.prepare(request)
            for line in first:
                await stream.write(line)
            seconds = float(request.query.get("timeoutSeconds", "1800"))
            async with asyncio.timeout(seconds):
                await self._follow(stream, resource, select, changes)
        except (TimeoutError, ConnectionError):
            pass
        finally:
            unsubscribe()
        return stream

    def _beginning(
        self,
        query: Mapping[str, str],
        resource: Resource,
        select: Selector,
        changes: asyncio.Queue[Change],
    ) -> list[bytes]:
        """Return the events that precede future changes."""
        if query.get("sendInitialEvents") == "true":
            found = self._objects.list(resource, select)
            lines = [_line("ADDED", each) for each in found]
            return [*lines, self._bookmark(resource, _INITIAL_END)]
        since = query.get("resourceVersion") or str(self._objects.version)
        if not since.isdecimal():
            raise Refused(400, "BadRequest", f"resourceVersion {since!r} is none of this server")
        for change in self._objects.since(int(since)):
            changes.put_nowait(change)
        return []

    async def _follow(
        self,
        stream: web.StreamResponse,
        resource: Resource,
        select: Selector,
        changes: asyncio.Queue[Change],
    ) -> None:
        ended = asyncio.ensure_future(self._ended.wait())
        try:
            while not ended.done():
                following = asyncio.ensure_future(changes.get())
                await asyncio.wait(
                    [ended, following],
                    timeout=_BOOKMARK_SECONDS,
                    return_when=asyncio.FIRST_COMPLETED,
                )
                if not following.done():
                    following.cancel()
                    await stream.write(self._bookmark(resource))
                    continue
                change = following.result()
                seen = change.seen(select) if change.plural == resource.plural else None
                if seen is not None:
                    await stream.write(_line(*seen))
        finally:
            ended.cancel()

    def _bookmark(self, resource: Resource, annotations: Mapping[str, str] | None = None) -> bytes:
        metadata: Object = {"resourceVersion": str(self._objects.version)}
        if annotations:
            metadata["annotations"] = dict(annotations)
        kind = {"kind": resource.kind, "apiVersion": resource.api_version}
        return _line("BOOKMARK", {**kind, "metadata": metadata})

    async def _create(self, request: web.Request, path: _Path) -> web.StreamResponse:
        body = await _body(request)
        if path.plural == TOKEN_REVIEWS.plural:
            return _json(self._tokens.review(body), 201)
        if path.plural == SUBJECT_ACCESS_REVIEWS.plural:
            return _json(self._tokens.may(body), 201)
        if path.name is not None:
            raise Refused(404, "NotFound", f"{path.subresource} is not served here")
        if path.namespace is not None:
            metadata = {**(body.get("metadata") or {}), "namespace": path.namespace}
            body = {**body, "metadata": metadata}
        return _json(self._objects.create(path.resource, body), 201)

    async def _replace(self, request: web.Request, path: _Path) -> web.StreamResponse:
        body = await _body(request)
        return _json(self._objects.replace(*path.key, body, status=_is_status(path.subresource)))

    async def _patch(self, request: web.Request, path: _Path) -> web.StreamResponse:
        patch = orjson.loads(await request.read())
        before = self._objects.get(*path.key)
        match request.content_type:
            case kind if kind == MERGE_PATCH and isinstance(patch, dict):
                after = merged(before, patch)
            case kind if kind == JSON_PATCH and isinstance(patch, list):
                after = patched(before, patch)
            case kind:
                raise Refused(415, "UnsupportedMediaType", f"patches of {kind} are not served here")
        status = _is_status(path.subresource)
        return _json(self._objects.replace(*path.key, after, status=status))

    async def _delete(self, request: web.Request, path: _Path) -> web.StreamResponse:
        options = await _body(request) if request.can_read_body else {}
        preconditions = options.get("preconditions") or {}
        left = self._objects.delete(
            *path.key,
            uid=preconditions.get("uid"),
            resource_version=preconditions.get("resourceVersion"),
            grace=options.get("gracePeriodSeconds"),
        )
        return _json(left or {"kind": "Status", "apiVersion": "v1", "status": "Success"})


def _parse(path: str) -> _Path:
    parts = path.strip("/").split("/")
    parts = parts[2:] if parts[0] == "api" else parts[3:]
    namespace = None
    if len(parts) > 2 and parts[0] == "namespaces":
        namespace, parts = parts[1], parts[2:]
    if not parts:
        raise Refused(404, "NotFound", "the server could not find the requested resource")
    plural, name, subresource, *_ = [*parts, None, None]
    return _Path(str(plural), namespace, name, subresource)


def _is_status(subresource: str | None) -> bool:
    if subresource not in (None, "status"):
        raise Refused(404, "NotFound", f"{subresource} is not served here")
    return subresource == "status"


async def _body(request: web.Request) -> Object:
    try:
        body = orjson.loads(await request.read() or b"{}")
    except orjson.JSONDecodeError as error:
        raise Refused(400, "BadRequest", f"the body is no JSON: {error}") from error
    if not isinstance(body, dict):
        raise Refused(400, "BadRequest", "the body is no object")
    return body


def _line(kind: str, obj: Object) -> bytes:
    return orjson.dumps({"type": kind, "object": obj}) + b"\n"


def _json(body: Mapping[str, Any], code: int = 200) -> web.Response:
    return web.Response(body=orjson.dumps(body), status=code, content_type="application/json")
