"""Reads from the API server that return refusals as results, and record what was not readable."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from di_api.field_error import mapping
from di_cli.diagnosis import Answer
from di_cli.session import Session
from di_kube.errors import ApiError
from di_kube.resources import Resource
from di_kube.wire import Target

_SECONDS: Final = 5.0
"""Timeout of each request in seconds, short so that a diagnosis does not hang."""

Object = dict[str, Any]
Read: TypeAlias = Callable[[], list[Object]]


class Reader:
    """Sends requests, and returns every response.

    Attributes:
        unread: what was not readable and why, for all requests passed to `noted`.
    """

    def __init__(self, session: Session) -> None:
        self._client = session.client
        self.unread: list[str] = []

    def list(
        self, resource: Resource, namespace: str | None = None, *, selector: str | None = None
    ) -> Answer:
        """Return the response to a list."""
        return self.taken(
            lambda: self._client.list(
                resource, namespace, label_selector=selector, timeout=_SECONDS
            )[0]
        )

    def get(self, resource: Resource, name: str) -> Answer:
        """Return the response for one cluster-scoped object."""
        return self.taken(lambda: [self._client.get(resource, name, timeout=_SECONDS)])

    def create(
        self,
        resource: Resource,
        body: Object,
        namespace: str | None = None,
        *,
        dry_run: bool = False,
    ) -> Answer:
        """Return the response to a create that stores nothing permanent."""
        whole = {"apiVersion": resource.api_version, "kind": resource.kind, **body}
        return self.taken(
            lambda: [
                self._client.create(resource, whole, namespace, dry_run=dry_run, timeout=_SECONDS)
            ]
        )

    def path(self, path: str, target: Target) -> Answer:
        """Return the response to a path, with an object if it is one."""
        return self.taken(
            lambda: _objects(b"\n".join(self._client.lines(path, target, silence=_SECONDS)))
        )

    @staticmethod
    def taken(read: Read) -> Answer:
        """Return the result of a read, or its error, as a response."""
        try:
            return Answer(found=tuple(read()))
        except ApiError as error:
            return Answer(code=error.code, words=error.message)

    def noted(self, what: str, answer: Answer) -> tuple[Any, ...]:
        """Return the objects of a response, and record a refusal."""
        if not answer.is_good:
            self.note(what, answer.words)
        return answer.found

    def note(self, what: str, why: str) -> None:
        """Record that something was not readable."""
        self.unread.append(f"{what}: {why}")


def _objects(text: bytes) -> list[Object]:
    try:
        return [dict(mapping(json.loads(text)))]
    except ValueError:
        return []
