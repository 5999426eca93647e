"""A part of the leader, beside the reconciler: records each notification in the job, then sends it.

This order sends nothing twice after a change of leader. A notification is lost if the leader dies
between the two steps.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Final, NoReturn, Protocol

import aiohttp
import orjson
import structlog

from di_api.names import OPERATOR_NAME
from di_kube.client import KubeClient
from di_kube.errors import ApiError, NotFound
from di_kube.resources import DIJOBS
from di_operator.notification_targets import Target
from di_operator.notifications.news import addressees, body, news_of
from di_operator.notifications.outbox import Notification, Outbox
from di_operator.process.clock import Clock
from di_operator.process.controller import JobKey
from di_operator.process.lease_state import NotLeading

_JSON: Final = {"Content-Type": "application/json"}
log = structlog.get_logger(__name__)

PERIOD: Final = 2.0
"""Seconds between two checks of the jobs that have changed."""
SWEEP: Final = 60.0
"""Seconds between two checks of all jobs that have not ended: time alone can cause a
notification.
"""
ATTEMPTS: Final = 3
PAUSE: Final = 2.0
DEADLINE: Final = 10.0
"""Timeout of one attempt in seconds, from the DNS lookup to the first line of the response."""
SENDERS: Final = 4
"""Notifications that are sent to one target concurrently."""
IDLE: Final = 0.5
"""Seconds between two checks of a queue from which nothing can be sent."""
READ_AT_ONCE: Final = 64
"""Jobs that are checked before other tasks of the event loop run."""


class Observer(Protocol):
    """The metrics that the notifier updates."""

    def notified(self, target: str, result: str) -> None:
        """Count one notification: `sent`, `failed` or `dropped`."""
        ...


class Notifier:
    """Sends notifications of jobs to targets."""

    def __init__(
        self,
        *,
        client: KubeClient,
        job: Callable[[JobKey], Mapping[str, Any] | None],
        unfinished: Callable[[], Iterable[Mapping[str, Any]]],
        observe: Callable[[dict[str, Any]], None],
        targets: tuple[Target, ...],
        waiting: float,
        check_lease: Callable[[], None],
        clock: Clock,
        observer: Observer,
    ) -> None:
        """Put the parts together.

        Args:
            client: of the API server.
            job: returns a job from the cache.
            unfinished: returns all jobs that have not ended.
            observe: stores a job as the API server returned it.
            targets: the targets that jobs can name.
            waiting: seconds after which a Pending job causes a notification; 0: never.
            check_lease: raises NotLeading when the lease is lost.
            clock: the API server's.
            observer: counts notifications.
        """
        self._client = client
        self._job = job
        self._unfinished = unfinished
        self._observe = observe
        self._targets = targets
        self._waiting = waiting
        self._check_lease = check_lease
        self._clock = clock
        self._observer = observer
        self._changed: dict[JobKey, None] = {}
        self._is_ending = False
        self._outboxes = {
            target.name: Outbox(
                target.name,
                monotonic=clock.monotonic,
                dropped=partial(observer.notified, target.name, "dropped"),
            )
            for target in targets
        }

    def follow(self, kind: str, job: Mapping[str, Any]) -> None:
        """Record that a job has changed; the job is not read here.

        A replica that does not lead records all existing jobs, for when it does.
        """
        metadata = job["metadata"]
        key = JobKey(metadata["namespace"], metadata["name"])
        if kind == "DELETED":
            self._changed.pop(key, None)
        else:
            self._changed[key] = None

    async def run(self) -> None:
        """Send until cancelled or the lease is lost; recorded notifications are still sent."""
        self._is_ending = False
        # No proxy from the environment, no cookies, no redirects: a target is one address.
        timeout = aiohttp.ClientTimeout(total=DEADLINE)
        async with (
            aiohttp.ClientSession(timeout=timeout, cookie_jar=aiohttp.DummyCookieJar()) as session,
            asyncio.TaskGroup() as sending,
        ):
            for target in self._targets:
                for _ in range(SENDERS):
                    sending.create_task(self._send_all(session, target))
            with suppress(NotLeading):
                await self._look()
            self._is_ending = True

    async def _look(self) -> NoReturn:
        swept = self._clock.monotonic() - SWEEP
        while True:
            if self._waiting and self._clock.monotonic() - swept >= SWEEP:
                swept = self._clock.monotonic()
                for job in self._unfinished():
                    self.follow("MODIFIED", job)
            changed, self._changed = self._changed, {}
            for number, key in enumerate(changed, 1):
                await self._note(key)
                if number % READ_AT_ONCE == 0:
                    await self._clock.sleep(0)
            await self._clock.sleep(PERIOD)

    async def _note(self, key: JobKey) -> None:
        """Record the notifications of a job, then queue them; if the record fails, they wait."""
        job, now = self._job(key), self._clock.now()
        if job is None:
            return
        # Bodies and not the job: a hundred jobs of a megabyte can fail together.
        told = [
            (news, target.name, orjson.dumps(body(target, job, news)))
            for news in news_of(job, now, waiting=self._waiting)
            for target in addressees(job, self._targets, news.happening)
        ]
        if not told:
            return
        self._check_lease()
        metadata = job["metadata"]
        patch = {
            "metadata": {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]},
            "status": {"notified": {news.happening.value: news.at for news, _, _ in told}},
        }
        try:
            patched = await self._client.patch(
                DIJOBS,
                key.name,
                patch,
                key.namespace,
                subresource="status",
                field_manager=OPERATOR_NAME,
            )
        except NotFound:
            return
        except ApiError as error:
            # A conflict: another client wrote, and its change can cause a notification too.
            log.info("notification postponed", **key._asdict(), error=str(error))
            self._changed[key] = None
            return
        self._observe(patched)
        for news, target_name, sent in told:
            self._outboxes[target_name].put(
                Notification(key.namespace, key.name, news.happening.value, sent)
            )

    async def _send_all(self, session: aiohttp.ClientSession, target: Target) -> None:
        """Send the queue of a target, one notification after the other, until the end."""
        outbox = self._outboxes[target.name]
        while True:
            found = outbox.take()
            if found is not None:
                await self._send(session, target, found)
                continue
            wait = outbox.wait()
            if wait is None and self._is_ending:
                return
            await self._clock.sleep(IDLE if wait is None else max(wait, IDLE))

    async def _send(
        self, session: aiohttp.ClientSession, target: Target, found: Notification
    ) -> None:
        for attempt in range(1, ATTEMPTS + 1):
            problem = await self._post(session, target, found.body)
            if not problem:
                self._observer.notified(target.name, "sent")
                return
            if attempt < ATTEMPTS:
                await self._clock.sleep(PAUSE * attempt)
        self._observer.notified(target.name, "failed")
        log.warning(
            "notification failed",
            namespace=found.namespace,
            name=found.name,
            target=target.name,
            happening=found.happening,
            error=problem,
        )

    @staticmethod
    async def _post(session: aiohttp.ClientSession, target: Target, sent: bytes) -> str:
        """Send one notification; return the error without the URL, which is a secret, or an empty
        string.
        """
        try:
            url = target.url_file.read_text("utf-8").strip()
            if not url.startswith(("https://", "http://")):
                return "its URL is none of http or https"
            async with session.post(url, data=sent, headers=_JSON, allow_redirects=False) as answer:
                return "" if answer.status < 300 else f"status {answer.status}"
        except (OSError, aiohttp.ClientError, TimeoutError, ValueError) as error:
            return type(error).__name__
