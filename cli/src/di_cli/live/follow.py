"""Follows jobs by list and watch, repeatedly."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from di_cli.session import Session
from di_cli.views.jobs import Key, key_of
from di_kube.errors import Gone, Throttled, Unavailable
from di_kube.resources import DIJOBS, Resource

Object = dict[str, Any]
Jobs = Mapping[Key, Object]
_WATCH_SECONDS: Final = 50
_PAUSES: Final = (0.2, 0.5, 1.0, 2.0, 5.0)
"""Seconds before a retry, by the number of failures in a row."""


def follow(
    session: Session,
    *,
    namespace: str | None,
    name: str | None = None,
    selector: str | None = None,
    seconds: float | None = None,
    resource: Resource = DIJOBS,
    is_over: Callable[[], bool] = lambda: False,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[Jobs]:
    """Yield all jobs (or other objects) of a namespace, or of all, by namespace and name, at each
    change.

    Ends after `seconds`, if given; until then it waits for an unreachable API server. Also ends
    with a local run, and before the next request once `is_over` is true. Raises the errors of the
    first list.
    """
    end = None if seconds is None else clock() + seconds
    fields = None if name is None else f"metadata.name={name}"
    found: dict[tuple[str, str], Object] = {}
    failures, version = 0, ""
    has_listed = False
    while not is_over() and (end is None or clock() < end):
        try:
            if not version:
                items, version = session.client.list(
                    resource, namespace, label_selector=selector, field_selector=fields
                )
                found, has_listed = {key_of(each): each for each in items}, True
                yield found
            left = _WATCH_SECONDS if end is None else min(_WATCH_SECONDS, int(end - clock()) + 1)
            for kind, obj in session.client.watch(
                resource,
                namespace,
                resource_version=version,
                label_selector=selector,
                field_selector=fields,
                timeout_seconds=max(1, left),
            ):
                failures, version = 0, obj["metadata"].get("resourceVersion", version)
                if kind == "BOOKMARK":
                    continue
                if kind == "DELETED":
                    found.pop(key_of(obj), None)
                else:
                    found[key_of(obj)] = obj
                yield found
                if end is not None and clock() >= end:
                    return
        except Gone:
            version = ""
        except (Unavailable, Throttled):
            if not has_listed:
                raise
            if session.is_over:
                return
            sleep(_PAUSES[min(failures, len(_PAUSES) - 1)])
            failures += 1
