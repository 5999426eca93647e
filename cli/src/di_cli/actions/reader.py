"""A pod that reads what a job has left on its claims, for as long as a command needs it."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final

from di_api.field_error import items, mapping
from di_cli.edits.kept_files import READER, KeptPath, reader_pod
from di_cli.errors import CommandError
from di_cli.output import note
from di_cli.session import Session
from di_kube.errors import ApiError
from di_kube.resources import PODS

_SECONDS: Final = 120.0
"""Time for the pod to start: a volume may have to be attached, an image to be pulled."""
_MOST_OF_NAME: Final = 40
_EVERY: Final = 0.25


@contextmanager
def reading(
    session: Session,
    job: dict[str, Any],
    kept: Sequence[KeptPath],
    image: str,
    node: str = "",
) -> Iterator[str]:
    """Have a running pod with the paths of one task, and delete it in the end.

    Raises:
        CommandError: it does not start; the message has what it waits for.
    """
    of = str(job["metadata"]["name"])
    name = f"{of[:_MOST_OF_NAME].rstrip('-.')}-{READER}-{secrets.token_hex(3)}"
    session.client.create(PODS, reader_pod(job, kept, name, image, node), session.namespace)
    note(f"pod {name} reads the claims of {of}")
    try:
        _wait(session, name)
        yield name
    finally:
        with suppress(ApiError):  # it ends by itself, and with the job
            session.client.delete(PODS, name, session.namespace)


def _wait(session: Session, name: str) -> None:
    deadline = time.monotonic() + _SECONDS
    while True:
        status = mapping(session.client.get(PODS, name, session.namespace).get("status"))
        if status.get("phase") == "Running":
            return
        if status.get("phase") in ("Succeeded", "Failed") or time.monotonic() >= deadline:
            raise CommandError(
                f"pod {name}, which reads the claims, does not run",
                where=_reason(status),
                remedy="--image, if that of the task cannot be pulled or has no sh; else try again",
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
