"""What the API server says, also where it refuses: an answer, and a note of what was not read."""

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
"""For each request: who waits for what is broken says nothing."""

Object = dict[str, Any]
Read: TypeAlias = Callable[[], list[Object]]


class Reader:
    """Asks, and takes every answer.

    Attributes:
        unread: what was not read and why, in words, of all that was asked for by name (`noted`).
    """

    def __init__(self, session: Session) -> None:
        self._client = session.client
        self.unread: list[str] = []

    def list(
        self, resource: Resource, namespace: str | None = None, *, selector: str | None = None
    ) -> Answer:
        """A collection."""
        return self.taken(
            lambda: self._client.list(
                resource, namespace, label_selector=selector, timeout=_SECONDS
            )[0]
        )

    def get(self, resource: Resource, name: str) -> Answer:
        """One object of the cluster."""
        return self.taken(lambda: [self._client.get(resource, name, timeout=_SECONDS)])

    def create(
        self,
        resource: Resource,
        body: Object,
        namespace: str | None = None,
        *,
        dry_run: bool = False,
    ) -> Answer:
        """What is made: nothing that is kept."""
        whole = {"apiVersion": resource.api_version, "kind": resource.kind, **body}
        return self.taken(
            lambda: [
                self._client.create(resource, whole, namespace, dry_run=dry_run, timeout=_SECONDS)
            ]
        )

    def path(self, path: str, target: Target) -> Answer:
        """What is at a path; an object, if it is one."""
        return self.taken(
            lambda: _objects(b"\n".join(self._client.lines(path, target, silence=_SECONDS)))
        )

    @staticmethod
    def taken(read: Read) -> Answer:
        """What was read, or why it was not."""
        try:
            return Answer(found=tuple(read()))
        except ApiError as error:
            return Answer(code=error.code, words=error.message)

    def noted(self, what: str, answer: Answer) -> tuple[Any, ...]:
        """The objects of an answer; that there are none since it was refused is noted."""
        if not answer.is_good:
            self.note(what, answer.words)
        return answer.found

    def note(self, what: str, why: str) -> None:
        """Say that something was not read."""
        self.unread.append(f"{what}: {why}")


def _objects(text: bytes) -> list[Object]:
    try:
        return [dict(mapping(json.loads(text)))]
    except ValueError:
        return []
