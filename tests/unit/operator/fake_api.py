"""An API server in a dict: names, UIDs, resource versions and preconditions as the real one."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections import Counter
from collections.abc import Callable
from typing import Any

from di_kube.errors import AlreadyExists, ApiError, Conflict, NotFound
from di_kube.resources import SUBJECT_ACCESS_REVIEWS, Resource
from di_kube.selectors import read_label_selector

Object = dict[str, Any]


class FakeApi:
    """Has the methods of KubeClient that the operator's shell writes with.

    `before` is called with (verb, kind, name) ahead of each request and may raise or return an
    error to answer with; `calls` counts (verb, kind). `mighty` are the users who may do anything.
    """

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str, str], Object] = {}
        self.dry_runs: list[str] = []
        self.mighty: set[str] = set()
        self.calls: Counter[tuple[str, str]] = Counter()
        self.before: Callable[[str, str, str], ApiError | None] = lambda verb, kind, name: None
        self.under_way = 0
        self.most_under_way = 0
        self._versions = itertools.count(1)

    def put(self, resource: Resource, namespace: str, body: Object) -> Object:
        """Place an object as another client would."""
        metadata = {"uid": f"uid-{next(self._versions)}", **body["metadata"]}
        stored = {
            **body,
            "metadata": {
                **metadata,
                "namespace": namespace,
                "resourceVersion": str(next(self._versions)),
            },
        }
        self.objects[resource.kind, namespace, metadata["name"]] = stored
        return stored

    async def raw(self, path: str) -> bytes:
        """The discovery of a group: it has all that its tests ask for."""
        assert path.startswith("/api")
        return json.dumps({"resources": [{"name": "podgroups"}]}).encode()

    async def get(
        self, resource: Resource, name: str, namespace: str = "", *, timeout: float | None = None
    ) -> Object:
        await self._arrive("get", resource, name)
        return self._found(resource, name, namespace)

    async def list(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        label_selector: str = "",
        field_selector: str = "",
        transform: Callable[[Object], Object] = lambda body: body,
    ) -> tuple[list[Object], str]:
        """Knows selectors of labels, and of the name."""
        await self._arrive("list", resource, "")
        selects = read_label_selector(label_selector)
        wanted = field_selector.removeprefix("metadata.name=")
        found = [
            body
            for (kind, place, name), body in self.objects.items()
            if kind == resource.kind and namespace in (None, place)
            if not wanted or name == wanted
            if selects(body)
        ]
        return [transform(body) for body in found], str(next(self._versions))

    async def create(
        self,
        resource: Resource,
        body: Object,
        namespace: str = "",
        *,
        dry_run: bool = False,
        timeout: float | None = None,
    ) -> Object:
        if resource == SUBJECT_ACCESS_REVIEWS:
            await self._arrive("create", resource, "")
            return {"status": {"allowed": body["spec"]["user"] in self.mighty}}
        name = body["metadata"]["name"]
        await self._arrive("create", resource, name)
        if (resource.kind, namespace, name) in self.objects:
            raise AlreadyExists(kind=resource.kind, namespace=namespace, name=name, code=409)
        if dry_run:
            self.dry_runs.append(name)
            return body
        return self.put(resource, namespace, body)

    async def patch(
        self,
        resource: Resource,
        name: str,
        patch: Object,
        namespace: str = "",
        *,
        subresource: str | None = None,
        field_manager: str | None = None,
    ) -> Object:
        await self._arrive("patch", resource, name)
        old = self._found(resource, name, namespace)
        wanted = patch.get("metadata", {})
        self._check(resource, old, wanted.get("uid"), wanted.get("resourceVersion"))
        merged = _merge(old, patch)
        return self.put(resource, namespace, merged)

    async def replace(
        self,
        resource: Resource,
        name: str,
        body: Object,
        namespace: str = "",
        *,
        subresource: str | None = None,
        field_manager: str | None = None,
        timeout: float | None = None,
    ) -> Object:
        await self._arrive("replace", resource, name)
        old = self._found(resource, name, namespace)
        wanted = body["metadata"]
        self._check(resource, old, wanted.get("uid"), wanted.get("resourceVersion"))
        if subresource == "status":
            body = {**old, "status": body["status"]}
        return self.put(resource, namespace, body)

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str = "",
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        grace_period_seconds: int | None = None,
    ) -> Object:
        await self._arrive("delete", resource, name)
        self._check(resource, self._found(resource, name, namespace), uid, resource_version)
        return self.delete_found(resource, namespace, name, grace_period_seconds)

    def delete_found(
        self, resource: Resource, namespace: str, name: str, grace: int | None
    ) -> Object:
        """Delete an object that exists, at once whatever its grace period; return the response."""
        del self.objects[resource.kind, namespace, name]
        return {"kind": "Status", "status": "Success"}

    async def _arrive(self, verb: str, resource: Resource, name: str) -> None:
        self.calls[verb, resource.kind] += 1
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        try:
            await asyncio.sleep(0.001)
            error = self.before(verb, resource.kind, name)
            if error is not None:
                raise error
        finally:
            self.under_way -= 1

    def _found(self, resource: Resource, name: str, namespace: str) -> Object:
        try:
            return self.objects[resource.kind, namespace, name]
        except KeyError:
            raise NotFound(kind=resource.kind, namespace=namespace, name=name, code=404) from None

    def _check(self, resource: Resource, old: Object, uid: str | None, version: str | None) -> None:
        metadata = old["metadata"]
        if uid not in (None, metadata["uid"]) or version not in (None, metadata["resourceVersion"]):
            raise Conflict(kind=resource.kind, name=metadata["name"], code=409)


def _merge(old: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch
    merged = dict(old) if isinstance(old, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = _merge(merged.get(key), value)
    return merged
