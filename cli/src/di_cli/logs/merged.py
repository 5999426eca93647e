"""The logs of many pods as one stream, in bounded memory.

Each pod that is followed has a thread that reads its log and hands the lines over, one by one; who
is not listened to waits. Pods that come are followed too, and one whose connection was cut goes on
where it was.
"""

from __future__ import annotations

import heapq
import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

from di_api.names import LABEL_JOB
from di_cli.live.follow import follow
from di_cli.logs.read import Asked, container_of, lines_of
from di_cli.session import Session
from di_cli.views.pods import name_of
from di_kube.errors import ApiError, Throttled, Unavailable
from di_kube.resources import PODS

MOST_PODS: Final = 64
"""Pods whose logs are followed at once: each takes a thread and a connection."""
_WAITING_LINES: Final = 1000
_PAUSE: Final = 1.0

Object = dict[str, Any]


@dataclass(frozen=True, slots=True, order=True)
class Line:
    """A line of a pod's log; in order of time."""

    time: str
    pod: str
    text: str


def read_all(session: Session, pods: Iterable[Object], asked: Asked) -> Iterator[Line]:
    """The lines there are, in order of time. Pods without a log have none."""
    logs = [_of_pod(session, pod, asked) for pod in pods]
    yield from heapq.merge(*logs)


def _of_pod(session: Session, pod: Object, asked: Asked) -> list[Line]:
    name = name_of(pod)
    asked = replace(asked, container=asked.container or container_of(pod))
    try:
        found = [
            Line(at, name, text)
            for at, text in lines_of(session.client, session.namespace, name, asked)
        ]
    except ApiError as error:
        # 400 says that the container has not begun, or has no earlier run.
        if error.code in (400, 404):
            return []
        raise
    return found


def follow_all(
    session: Session, job: str, asked: Asked, wanted: Callable[[Object], bool]
) -> Iterator[Line]:
    """The lines as they come, of pods that are there and of those that come, until Ctrl-C, or
    until a run on this machine is over."""
    lines: queue.Queue[Line | ApiError | None] = queue.Queue(maxsize=_WAITING_LINES)
    thread = threading.Thread(
        target=_watch_pods, args=(session, job, asked, wanted, lines), daemon=True
    )
    thread.start()
    while True:
        found = lines.get()
        if found is None:
            return
        if isinstance(found, ApiError):
            raise found
        yield found


def _watch_pods(
    session: Session,
    job: str,
    asked: Asked,
    wanted: Callable[[Object], bool],
    lines: queue.Queue[Line | ApiError | None],
) -> None:
    """Begin to follow each pod once its program has begun; None is the last that is handed over."""
    followed: set[tuple[str, int]] = set()
    threads: list[threading.Thread] = []
    begins = asked
    selector = f"{LABEL_JOB}={job}"
    try:
        for pods in follow(session, namespace=session.namespace, selector=selector, resource=PODS):
            for pod in pods.values():
                run = _run_of(pod, asked.container or container_of(pod))
                if run in followed or not wanted(pod) or not _has_begun(pod):
                    continue
                if threading.active_count() > MOST_PODS:
                    continue
                followed.add(run)
                threads.append(
                    threading.Thread(
                        target=_follow_pod, args=(session, pod, begins, lines), daemon=True
                    )
                )
                threads[-1].start()
            # Of pods that come later everything is shown.
            begins = replace(asked, tail=None, since_seconds=None)
        for thread in threads:
            thread.join()
        lines.put(None)
    except ApiError as error:
        lines.put(error)


def _follow_pod(
    session: Session, pod: Object, asked: Asked, lines: queue.Queue[Line | ApiError | None]
) -> None:
    name, last, told = name_of(pod), "", ""
    asked = replace(asked, container=asked.container or container_of(pod), follow=True)
    while True:
        try:
            for at, text in lines_of(session.client, session.namespace, name, asked):
                # What is asked for since a time begins with the line of that time.
                if at > told:
                    lines.put(Line(at, name, text))
                    last = at
            return
        except (Unavailable, Throttled):
            if session.is_over:
                return
            time.sleep(_PAUSE)
            if last:
                told = last
                asked = replace(asked, since_time=last, since_seconds=None, tail=None)
        except ApiError:
            # The pod is gone, or its container has not begun after all.
            return


def _run_of(pod: Object, container: str) -> tuple[str, int]:
    """Which run of which container: one that is restarted in place has another log."""
    counts = [
        each.get("restartCount")
        for each in (pod.get("status") or {}).get("containerStatuses") or ()
        if each.get("name") == container
    ]
    return str(pod["metadata"].get("uid")), counts[0] if counts else 0


def _has_begun(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Running", "Succeeded", "Failed")
