"""The log of one pod, from the kubelet."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from di_api.field_error import items, mapping
from di_api.pods.main_container import main_container, main_first
from di_cli.session import Session
from di_kube.errors import ApiError
from di_kube.resources import PODS
from di_kube.sync import SyncKubeClient
from di_kube.wire import Target, url_path

SILENCE: Final = 300.0
"""Seconds without a line after which a followed log is requested again."""

_SECONDS: Final = 10.0
"""Seconds without a line after which any other log counts as unavailable: its node does not
respond.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The requested part of a log."""

    container: str = ""
    since_seconds: int | None = None
    since_time: str | None = None
    tail: int | None = None
    previous: bool = False
    follow: bool = False


def lines_of(
    client: SyncKubeClient,
    namespace: str,
    pod: str,
    asked: Asked,
    *,
    silence: float = SILENCE,
) -> Iterator[tuple[str, str]]:
    """Yield time and text of each line; the time is RFC 3339 with nanoseconds.

    No `limitBytes`: of a log that is longer the kubelet would send the oldest bytes, and end in the
    middle of a line.

    A log that is followed is Unavailable after `silence` seconds without a line.
    """
    query: dict[str, str | int | bool | None] = {
        "container": asked.container or None,
        "follow": True if asked.follow else None,
        "previous": True if asked.previous else None,
        "sinceSeconds": asked.since_seconds,
        "sinceTime": asked.since_time,
        "tailLines": asked.tail,
        "timestamps": True,
    }
    path = url_path(PODS.path(namespace, pod, "log"), query)
    patience = silence if asked.follow else _SECONDS
    for line in client.lines(path, Target(PODS, namespace, pod), silence=patience):
        time, _, text = line.decode(errors="replace").rstrip("\r").partition(" ")
        # A text without a leading timestamp is the kubelet's error for a log that it does not find.
        if time[:1].isdigit():
            yield time, text


def last_bytes(lines: Iterable[str], most: int) -> tuple[list[str], int]:
    """The last lines that take `most` bytes together in UTF-8, and how many came before them."""
    kept: deque[str] = deque()
    size = left_out = 0
    for line in lines:
        kept.append(line)
        size += len(line.encode()) + 1
        while size > most and len(kept) > 1:
            size -= len(kept.popleft().encode()) + 1
            left_out += 1
    return [*kept], left_out


def container_of(pod: Mapping[str, Any]) -> str:
    """Return the container of the log: the program's own, else the first."""
    containers = items(mapping(pod.get("spec")).get("containers"))
    main = main_container([mapping(each) for each in containers])
    return "" if main is None else str(main.get("name"))


def last_lines(session: Session, pod: Mapping[str, Any], count: int) -> list[str]:
    """The last lines of a pod's program, of its last run if it has just been restarted; none
    where there is no log, or the user may not read it."""
    name = str(mapping(pod.get("metadata")).get("name"))
    container = _failed_container(pod) or container_of(pod)
    for previous in (False, True):
        asked = Asked(container=container, tail=count, previous=previous)
        try:
            found = [text for _, text in lines_of(session.client, session.namespace, name, asked)]
        except ApiError:
            continue
        if found:
            return found
    return []


def _failed_container(pod: Mapping[str, Any]) -> str:
    """The container that explains the pod's state: the main one before all others."""
    for each in main_first(pod):
        for state in ("state", "lastState"):
            ended = mapping(mapping(each.get(state)).get("terminated"))
            if ended.get("exitCode"):
                return str(each.get("name") or "")
    return ""
