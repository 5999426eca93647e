"""The interface of the API client for storage; `SyncKubeClient` and the fakes of tests implement
it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from di_kube.resources import Resource

Object = dict[str, Any]


class Kube(Protocol):
    """The four calls that the server uses; each raises one of `di_kube.errors`."""

    def get(
        self, resource: Resource, name: str, namespace: str | None = None, *, timeout: float | None
    ) -> Object:
        """Return one object."""
        ...

    def list(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        label_selector: str | None = None,
        field_selector: str | None = None,
        timeout: float | None,
    ) -> tuple[list[Object], str]:
        """Return the objects of a kind, and the resourceVersion of the list."""
        ...

    def create(self, resource: Resource, body: Object, *, timeout: float | None) -> Object:
        """Create an object, and return it."""
        ...

    def patch(
        self,
        resource: Resource,
        name: str,
        patch: Object | Sequence[Object],
        namespace: str | None = None,
        *,
        content_type: str,
        subresource: str | None = None,
        field_manager: str | None = None,
        timeout: float | None,
    ) -> Object:
        """Patch an object, and return it."""
        ...
