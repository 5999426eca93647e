"""What storage asks of the API client; `SyncKubeClient` has it, and so do the fakes of tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from di_kube.resources import Resource

Object = dict[str, Any]


class Kube(Protocol):
    """The four calls the server makes; each raises one of `di_kube.errors`."""

    def get(
        self, resource: Resource, name: str, namespace: str | None = None, *, timeout: float | None
    ) -> Object:
        """One object."""
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
        """The objects of a kind, and the resourceVersion of the list."""
        ...

    def create(self, resource: Resource, body: Object, *, timeout: float | None) -> Object:
        """The object as it was made."""
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
        """The object as it is after the patch."""
        ...
