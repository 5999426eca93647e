"""A duty of the leader, beside the reconciles: notes what it is about to tell, then tells it.

In that order, so that nothing is told twice, whoever leads: a leader that dies in between has told
nobody, and the next one does not either.
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
"""Seconds between two looks at the jobs that have changed."""
SWEEP: Final = 60.0
"""Seconds between two looks at all jobs that have not ended: time alone makes news of one."""
ATTEMPTS: Final = 3
PAUSE: Final = 2.0
DEADLINE: Final = 10.0
"""Seconds of one attempt, from the name's resolution to the answer's first line."""
SENDERS: Final = 4
"""Notifications that are on their way to one target at once."""
IDLE: Final = 0.5
"""Seconds between two looks into a queue out of which nothing can be sent."""
READ_AT_ONCE: Final = 64
"""Jobs that are looked at before others get their turn."""


class Observer(Protocol):
    """What the notifier tells the metrics."""

    def notified(self, target: str, result: str) -> None:
        """Count one notification: `sent`, `failed` or `dropped`."""
        ...


class Notifier:
    """Tells targets of jobs."""

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
            job: one job as it is known.
            unfinished: all that have not ended.
            observe: takes in a job as the API server returned it.
            targets: whom jobs may name.
            waiting: seconds after which a Pending job is told of; 0: it is not.
            check_lease: raises NotLeading when the lease is lost.
            clock: the API server's.
            observer: counts.
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
        """Remember that a job has changed; nothing of it is read here.

        A replica that does not lead remembers all jobs that there are, for when it does.
        """
        metadata = job["metadata"]
        key = JobKey(metadata["namespace"], metadata["name"])
        if kind == "DELETED":
            self._changed.pop(key, None)
        else:
            self._changed[key] = None

    async def run(self) -> None:
        """Send until cancelled or the lease is lost; what is recorded by then is still sent."""
        self._is_ending = False
        # No proxy out of the environment, no cookies, no redirects: a target is one address.
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
        """Record what is about to be sent, then queue it; what could not be recorded waits."""
        job, now = self._job(key), self._clock.now()
        if job is None:
            return
        # Bodies and not the job: a hundred jobs of a megabyte may fail together.
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
            # A conflict: another client wrote, and what it wrote may be news too.
            log.info("notification postponed", **key._asdict(), error=str(error))
            self._changed[key] = None
            return
        self._observe(patched)
        for news, target_name, sent in told:
            self._outboxes[target_name].put(
                Notification(key.namespace, key.name, news.happening.value, sent)
            )

    async def _send_all(self, session: aiohttp.ClientSession, target: Target) -> None:
        """Send what is queued for a target, one after the other, until the end."""
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
        """What went wrong, without the URL, which is a secret; empty: nothing."""
        try:
            url = target.url_file.read_text("utf-8").strip()
            if not url.startswith(("https://", "http://")):
                return "its URL is none of http or https"
            async with session.post(url, data=sent, headers=_JSON, allow_redirects=False) as answer:
                return "" if answer.status < 300 else f"status {answer.status}"
        except (OSError, aiohttp.ClientError, TimeoutError, ValueError) as error:
            return type(error).__name__
