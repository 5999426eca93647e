"""The volume claim that keeps a pod from getting a node, and why the claim is not bound.

The claim's own Events have the cause: no permission to read claims or storage classes is needed.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from datetime import UTC, datetime
from typing import Final

from di_api.explain.facts import Object, text_of
from di_api.explain.job import Job
from di_api.explain.messages import one_line
from di_api.field_error import items, mapping
from di_api.timestamps import last_seen

_FIRST: Final = datetime.min.replace(tzinfo=UTC)
_NO_CLASS: Final = re.compile(r'storageclass(?:\.storage\.k8s\.io)? "([^"]+)" not found')


def claims_of(pods: Iterable[Object]) -> frozenset[str]:
    """Return the names of the claims that pods mount, of which the Events are wanted."""
    return frozenset(
        text_of(mapping(mapping(volume).get("persistentVolumeClaim")).get("claimName"))
        for pod in pods
        for volume in items(mapping(pod.get("spec")).get("volumes"))
    ) - {""}


def is_of_claim(event: Object, claims: Collection[str]) -> bool:
    """Return whether an Event is about one of the claims."""
    about = mapping(event.get("involvedObject"))
    return about.get("kind") == "PersistentVolumeClaim" and text_of(about.get("name")) in claims


def unbound_claim(job: Job, pod: str) -> str:
    """Return why a claim of a pod is not bound, by its newest Event; empty without one."""
    own = job.pod(pod)
    claims = claims_of([own] if own is not None else [])
    events = [event for event in job.facts.events if is_of_claim(event, claims)]
    if not events:
        return ""
    newest = max(events, key=lambda event: last_seen(event) or _FIRST)
    claim = text_of(mapping(newest.get("involvedObject")).get("name"))
    message = text_of(newest.get("message"))
    if found := _NO_CLASS.search(message):
        return f"claim {claim} waits for storage class {found[1]}, which does not exist"
    return f"claim {claim} is not bound: {one_line(message)}"
