"""Requests about one object, shared by both clients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

from di_kube import wire
from di_kube.resources import Resource
from di_kube.wire import MERGE_PATCH, Object, Target

R = TypeVar("R")


class Verbs(Generic[R]):
    """Each method returns the result of `_call`: the object, or a coroutine of it.

    All raise one of `di_kube.errors`; `timeout` is in seconds, None means the client's.
    """

    def get(
        self,
        resource: Resource,
        name: str,
        namespace: str | None = None,
        *,
        timeout: float | None = None,
    ) -> R:
        """Read one object consistently (never from an API server's stale cache)."""
        path = resource.path(namespace, name)
        return self._call("GET", path, Target(resource, namespace, name), timeout=timeout)

    def create(
        self,
        resource: Resource,
        body: Object,
        namespace: str | None = None,
        *,
        subresource: str | None = None,
        dry_run: bool = False,
        strict: bool = False,
        timeout: float | None = None,
    ) -> R:
        """Create an object in `namespace`, else in the one of its metadata.

        With `subresource` ("binding", "eviction", "token") the subresource of the object with that
        name is created. With `dry_run` everything is checked, and nothing is stored. With `strict`
        unknown and duplicate fields are refused, which the API server otherwise drops.
        """
        namespace = wire.body_namespace(body, namespace)
        target = Target(resource, namespace, body.get("metadata", {}).get("name"))
        query = {
            "dryRun": "All" if dry_run else None,
            "fieldValidation": "Strict" if strict else None,
        }
        path = wire.url_path(wire.create_path(target, subresource), query)
        return self._call("POST", path, target, body=body, timeout=timeout)

    def patch(
        self,
        resource: Resource,
        name: str,
        patch: Object | Sequence[Object],
        namespace: str | None = None,
        *,
        content_type: str = MERGE_PATCH,
        subresource: str | None = None,
        field_manager: str | None = None,
        force: bool | None = None,
        dry_run: bool = False,
        timeout: float | None = None,
    ) -> R:
        """Patch an object or one of its subresources; `force` is for apply patches. With `dry_run`
        everything is checked, and nothing is stored.
        """
        query = {
            "fieldManager": field_manager,
            "force": force,
            "dryRun": "All" if dry_run else None,
        }
        path = wire.url_path(resource.path(namespace, name, subresource), query)
        target = Target(resource, namespace, name)
        return self._call(
            "PATCH", path, target, body=patch, content_type=content_type, timeout=timeout
        )

    def replace(
        self,
        resource: Resource,
        name: str,
        body: Object,
        namespace: str | None = None,
        *,
        subresource: str | None = None,
        field_manager: str | None = None,
        timeout: float | None = None,
    ) -> R:
        """Replace an object; a resourceVersion in the body makes it a compare-and-swap."""
        query = {"fieldManager": field_manager}
        path = wire.url_path(resource.path(namespace, name, subresource), query)
        target = Target(resource, namespace, name)
        return self._call("PUT", path, target, body=body, timeout=timeout)

    def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str | None = None,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        grace_period_seconds: int | None = None,
        propagation: str = "Background",
        timeout: float | None = None,
    ) -> R:
        """Delete an object.

        Args:
            uid, resource_version: preconditions; Conflict is raised if they fail.
            grace_period_seconds: None means the pod's own.

        Returns:
            The object as it is now (with its deletionTimestamp), or a `Status` if it is gone.
        """
        options = wire.delete_options(
            uid=uid,
            resource_version=resource_version,
            grace_period_seconds=grace_period_seconds,
            propagation=propagation,
        )
        path = resource.path(namespace, name)
        target = Target(resource, namespace, name)
        return self._call("DELETE", path, target, body=options, timeout=timeout)

    def _call(
        self,
        method: str,
        path: str,
        target: Target,
        *,
        body: object = None,
        content_type: str = wire.JSON,
        timeout: float | None,
    ) -> R:
        raise NotImplementedError
