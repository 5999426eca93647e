"""Encoding of requests and responses, shared by both clients; no sockets."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import urlencode

import orjson

from di_kube.errors import ApiError, Silent, Unavailable, Unwritten, from_status
from di_kube.resources import Resource

Object = dict[str, Any]
Objects = list[Object]
E = TypeVar("E", bound=ApiError)

JSON = "application/json"
METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
MERGE_PATCH = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
USER_AGENT = "di-orchestrator"

DEFAULT_TIMEOUT = 10.0
# Bookmarks arrive about once a minute even without changes, so a stream that is silent for longer
# is dead although its socket may seem open.
WATCH_SILENCE = 70.0
PAGE = 500
# A page of 500 objects at etcd's limit of 1.5 MB would be 750 MB; real pages are below 10 MB. The
# bound only keeps a broken proxy from filling the memory.
MAX_BODY = 256 << 20
MAX_LINE = 16 << 20
_LARGE = 1 << 20


@dataclass(frozen=True, slots=True)
class Target:
    """The object of a request, for its errors."""

    resource: Resource
    namespace: str | None = None
    name: str | None = None

    def broken(self, reason: str, message: str) -> Unavailable:
        """Return the error for a missing or unusable response."""
        return self._error(Unavailable, reason, message)

    def unsent(self, reason: str, message: str) -> Unwritten:
        """Return the error for a request without a connection."""
        return self._error(Unwritten, reason, message)

    def silent(self, seconds: float) -> Silent:
        """Return the error for a stream without a byte for `seconds`."""
        return self._error(Silent, "WatchSilent", f"no byte for {seconds:g} s")

    def _error(self, of: type[E], reason: str, message: str) -> E:
        return of(
            kind=self.resource.kind,
            namespace=self.namespace,
            name=self.name,
            reason=reason,
            message=message,
        )

    def refused(self, code: int, body: object, headers: Mapping[str, str]) -> ApiError:
        """Return the typed error for a decoded `Status`, or for any other body."""
        return from_status(
            code,
            body,
            headers,
            kind=self.resource.kind,
            namespace=self.namespace,
            name=self.name,
        )


@contextmanager
def collector_paused() -> Iterator[None]:
    """Disable the garbage collector while many objects without cycles are created (parsed JSON, the
    view of a large job): at 10,000 objects repeated traversals of the growing heap cost more.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def encode(body: object) -> bytes:
    """Return a request's body as JSON."""
    return orjson.dumps(body)


def decode_object(raw: bytes, target: Target) -> Object:
    """Parse a successful response.

    Raises:
        Unavailable: it is not a JSON object (reason BadBody); a write may have been executed.
    """
    try:
        if len(raw) >= _LARGE:
            with collector_paused():
                value = orjson.loads(raw)
        else:
            value = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise target.broken("BadBody", str(error)) from error
    if not isinstance(value, dict):
        raise target.broken("BadBody", "the answer is not an object")
    return value


def decode_error(code: int, raw: bytes, headers: Mapping[str, str], target: Target) -> ApiError:
    """Return the typed error for a response whose status is not 2xx, whatever its body."""
    try:
        body: object = orjson.loads(raw)
    except orjson.JSONDecodeError:
        body = raw.decode(errors="replace")
    return target.refused(code, body, headers)


def decode_event(line: bytes, target: Target) -> tuple[str, Object]:
    """Parse one line of a watch.

    Raises:
        ApiError: it is an ERROR event (usually Gone).
        Unavailable: it is not an event (reason WatchCut).
    """
    try:
        event = orjson.loads(line)
        kind, body = event["type"], event["object"]
    except (orjson.JSONDecodeError, KeyError, TypeError) as error:
        raise target.broken("WatchCut", f"bad event: {error}") from error
    if not isinstance(body, dict) or not isinstance(body.get("metadata"), dict):
        raise target.broken("WatchCut", "bad event: its object is none")
    if kind == "ERROR":
        code = body.get("code", 0)
        raise target.refused(code if isinstance(code, int) else 0, body, {})
    return kind, body


def take_items(page: Object, resource: Resource) -> Objects:
    """Return the items of a list. Lists of built-in kinds omit apiVersion and kind in each item,
    watches do not; filling them in makes both equal.
    """
    items: Objects = page.get("items") or []
    for item in items:
        item.setdefault("apiVersion", resource.api_version)
        item.setdefault("kind", resource.kind)
    return items


def url_path(path: str, query: Mapping[str, str | int | bool | None]) -> str:
    """Return path and query; parameters that are None are left out."""
    pairs = [
        (key, str(value).lower() if isinstance(value, bool) else value)
        for key, value in query.items()
        if value is not None
    ]
    return f"{path}?{urlencode(pairs)}" if pairs else path


def headers(
    authorization: str | None, content_type: str | None = None, *, accept: str = JSON
) -> dict[str, str]:
    """Return the headers of a request; `content_type` is of its body, None without a body."""
    found = {"Accept": accept, "User-Agent": USER_AGENT}
    if content_type is not None:
        found["Content-Type"] = content_type
    if authorization is not None:
        found["Authorization"] = authorization
    return found


def watch_query(
    *,
    resource_version: str | None,
    label_selector: str | None,
    field_selector: str | None,
    timeout_seconds: int,
) -> dict[str, str | int | bool | None]:
    """Return the parameters of a watch, for `url_path`."""
    return {
        "watch": True,
        "allowWatchBookmarks": True,
        "resourceVersion": resource_version,
        "labelSelector": label_selector,
        "fieldSelector": field_selector,
        "timeoutSeconds": timeout_seconds,
    }


def body_namespace(body: Object, namespace: str | None) -> str | None:
    """Return the namespace to create in: the argument, else the body's."""
    if namespace is not None:
        return namespace
    found: str | None = body.get("metadata", {}).get("namespace")
    return found


def create_path(target: Target, subresource: str | None) -> str:
    """Return the path of the collection to create in, or of the target's subresource."""
    if subresource is None:
        return target.resource.path(target.namespace)
    return target.resource.path(target.namespace, target.name, subresource)


def delete_options(
    *,
    uid: str | None,
    resource_version: str | None,
    grace_period_seconds: int | None,
    propagation: str,
) -> Object:
    """Return the DeleteOptions; preconditions make a delete safe if the name is reused."""
    options: Object = {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "propagationPolicy": propagation,
    }
    preconditions = {"uid": uid, "resourceVersion": resource_version}
    preconditions = {key: value for key, value in preconditions.items() if value is not None}
    if preconditions:
        options["preconditions"] = preconditions
    if grace_period_seconds is not None:
        options["gracePeriodSeconds"] = grace_period_seconds
    return options
