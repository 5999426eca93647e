"""A pod that a command of `di` has for as long as it needs it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

from di_api.field_error import items, mapping
from di_cli.errors import CommandError
from di_cli.session import Session
from di_kube.errors import ApiError
from di_kube.resources import PODS

_SECONDS: Final = 120.0
"""Time for the pod to start: a volume may have to be attached, an image to be pulled."""
_EVERY: Final = 0.25


@contextmanager
def running(session: Session, body: dict[str, Any], use: str, remedy: str) -> Iterator[str]:
    """Have a running pod, and delete it in the end; yield its name.

    Args:
        use: what the pod does, for errors.
        remedy: against a pod that does not start.

    Raises:
        CommandError: it does not start; the message has what it waits for.
    """
    name = str(body["metadata"]["name"])
    session.client.create(PODS, body, session.namespace)
    try:
        _wait(session, name, use, remedy)
        yield name
    finally:
        with suppress(ApiError):  # it ends by itself
            session.client.delete(PODS, name, session.namespace)


def _wait(session: Session, name: str, use: str, remedy: str) -> None:
    deadline = time.monotonic() + _SECONDS
    while True:
        status = mapping(session.client.get(PODS, name, session.namespace).get("status"))
        if status.get("phase") == "Running":
            return
        if status.get("phase") in ("Succeeded", "Failed") or time.monotonic() >= deadline:
            raise CommandError(
                f"pod {name}, which {use}, does not run", where=_reason(status), remedy=remedy
            )
        time.sleep(_EVERY)


def _reason(status: Any) -> str:
    """Return what a pod waits for, from its container and its conditions."""
    states = [
        mapping(mapping(each).get("state")) for each in items(status.get("containerStatuses"))
    ]
    found = [mapping(state.get(kind)) for state in states for kind in ("waiting", "terminated")]
    found += [
        each
        for each in map(mapping, items(status.get("conditions")))
        if each.get("status") != "True"
    ]
    lines = (f"{each.get('reason', '')}: {each.get('message', '')}".strip(": ") for each in found)
    return "\n".join(dict.fromkeys(line for line in lines if line)) or str(
        status.get("phase") or ""
    )
