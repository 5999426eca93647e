"""The logs of a job's containers as they grow, until the job has ended.

Each log has a thread that reads it and hands its lines over, one by one; who is not listened to
waits. Containers that start later are followed too, and a log whose connection was cut goes on
where it was.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from di_api.field_error import mapping
from di_api.names import LABEL_JOB
from di_api.phase import Phase
from di_cli.live.follow import follow
from di_cli.logs.merged import MOST_PODS, Line, read_all
from di_cli.logs.read import Asked, lines_of
from di_cli.logs.sources import Source
from di_cli.session import Session
from di_cli.views.pods import in_order
from di_kube.errors import ApiError, Throttled, Unavailable
from di_kube.resources import PODS

_WAITING_LINES: Final = 1000
_PAUSE: Final = 1.0
_LAST_WORDS: Final = 10.0
"""Seconds after the end of a job for the logs of pods that still run, which need not end."""

Choice = Callable[[list[Mapping[str, Any]]], list[Source]]
"""Which containers of these pods are followed."""


class Followed:
    """Follows the logs of a job, in threads.

    Args:
        asked: which part of the present logs. Later containers are shown whole.
        choose: which containers.
        on_none: called for a container without a log, with the reason.
        on_job: called with the job at each change, by a thread.
    """

    def __init__(
        self,
        session: Session,
        job: str,
        asked: Asked,
        choose: Choice,
        *,
        on_none: Callable[[Source, str], None],
        on_job: Callable[[dict[str, Any]], None] = lambda _: None,
    ) -> None:
        self._session = session
        self._job = job
        self._asked = asked
        self._choose = choose
        self._on_none = on_none
        self._on_job = on_job
        self._lines: queue.Queue[Line | ApiError | None] = queue.Queue(maxsize=_WAITING_LINES)
        self._lock = threading.Lock()
        self._threads: dict[tuple[str, str, int], threading.Thread] = {}
        self._is_over = threading.Event()

    def lines(self) -> Iterator[Line]:
        """The lines there are, in order of time, then those that come, as they come.

        Ends when the job has ended or is gone and its logs are read, or when a run on this machine
        is over.
        """
        begun = self._begun(self._pods())
        last: dict[str, str] = {}
        for line in read_all(self._session, begun[:MOST_PODS], self._asked, on_none=self._on_none):
            last[line.pod] = line.time
            yield line
        for each in begun:
            self._start(each, self._asked, last.get(each.label, ""))
        for watch in (self._watch_pods, self._watch_job):
            threading.Thread(
                target=self._reporting, args=(watch,), name=f"follow {self._job}", daemon=True
            ).start()
        try:
            while (found := self._lines.get()) is not None:
                if isinstance(found, ApiError):
                    raise found
                yield found
        finally:
            # The session may go on; without this its threads would watch for as long.
            self._is_over.set()

    def _pods(self) -> list[Mapping[str, Any]]:
        return in_order(self._session.pods(self._job))

    def _begun(self, pods: list[Mapping[str, Any]]) -> list[Source]:
        sources = self._choose(pods)
        return [each for each in sources if each.has_begun]

    def _reporting(self, watch: Callable[[], None]) -> None:
        try:
            watch()
        except ApiError as error:
            self._put(error)

    def _watch_pods(self) -> None:
        selector = f"{LABEL_JOB}={self._job}"
        namespace = self._session.namespace
        for pods in follow(
            self._session,
            namespace=namespace,
            selector=selector,
            resource=PODS,
            is_over=self._is_over.is_set,
        ):
            self._start_all(in_order(pods.values()))
        self._finish(None)

    def _watch_job(self) -> None:
        namespace = self._session.namespace
        for jobs in follow(
            self._session, namespace=namespace, name=self._job, is_over=self._is_over.is_set
        ):
            job = jobs.get((namespace, self._job))
            if job is not None:
                self._on_job(job)
            phase = mapping((job or {}).get("status")).get("phase")
            if job is None or phase in (Phase.SUCCEEDED, Phase.FAILED):
                # The watch of the pods may be behind that of the job.
                self._start_all(self._pods())
                self._finish(time.monotonic() + _LAST_WORDS)
                return

    def _put(self, found: Line | ApiError | None) -> bool:
        """Put into the queue once it is not full; return False if it is no longer read."""
        while not self._is_over.is_set():
            try:
                self._lines.put(found, timeout=_PAUSE)
            except queue.Full:
                continue
            return True
        return False

    def _finish(self, end: float | None) -> None:
        """Wait for the threads, until that time at most, and end the lines."""
        for thread in list(self._threads.values()):
            thread.join(None if end is None else max(0.0, end - time.monotonic()))
        self._put(None)

    def _start_all(self, pods: list[Mapping[str, Any]]) -> None:
        later = replace(self._asked, tail=None, since_seconds=None)
        for each in self._begun(pods):
            self._start(each, later, "")

    def _start(self, source: Source, asked: Asked, shown: str) -> None:
        """Follow a log that is not followed yet, from the line after that time on."""
        with self._lock:
            if source.run in self._threads:
                return
            if sum(thread.is_alive() for thread in self._threads.values()) >= MOST_PODS:
                return
            thread = threading.Thread(
                target=self._follow,
                args=(source, asked, shown),
                name=f"follow {source.label}",
                daemon=True,
            )
            self._threads[source.run] = thread
        thread.start()

    def _follow(self, source: Source, asked: Asked, shown: str) -> None:
        asked = replace(asked, container=source.container, follow=True)
        while not self._is_over.is_set():
            if shown:
                asked = replace(asked, since_time=shown, since_seconds=None, tail=None)
            last = shown
            try:
                for at, text in lines_of(
                    self._session.client, self._session.namespace, source.pod, asked
                ):
                    # What is asked for since a time begins with the line of that time.
                    if at > shown:
                        if not self._put(Line(at, source.label, text)):
                            return
                        last = at
                return
            except (Unavailable, Throttled):
                if self._session.is_over:
                    return
                time.sleep(_PAUSE)
                shown = last
            except ApiError:
                # The pod is gone, or its container has not begun after all.
                return
