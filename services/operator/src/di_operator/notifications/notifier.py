"""A duty of the leader, beside the reconciles: notes what it is about to tell, then tells it.

In that order, so that nothing is told twice, whoever leads: a leader that dies in between has told
nobody, and the next one does not either.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NoReturn, Protocol

import aiohttp
import structlog

from di_api.kube.client import KubeClient
from di_api.kube.errors import ApiError, NotFound
from di_api.kube.resources import DIJOBS
from di_api.names import OPERATOR_NAME
from di_operator.clock import Clock
from di_operator.controller import JobKey
from di_operator.leadership import NotLeading
from di_operator.notification_targets import Target
from di_operator.notifications.news import News, addressees, body, news_of

log = structlog.get_logger(__name__)

PERIOD: Final = 2.0
"""Seconds between two looks at the jobs that have changed."""
SWEEP: Final = 60.0
"""Seconds between two looks at all jobs that have not ended: time alone makes news of one."""
ATTEMPTS: Final = 3
PAUSE: Final = 2.0
DEADLINE: Final = 10.0
"""Seconds of one attempt, from the name's resolution to the answer's first line."""
AT_ONCE: Final = 8
READ_AT_ONCE: Final = 64
"""Jobs that are looked at before others get their turn."""


class Observer(Protocol):
    """What the notifier tells the metrics."""

    def notified(self, target: str, result: str) -> None:
        """Count one notification: `sent` or `failed`."""
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
        self._slots = asyncio.Semaphore(AT_ONCE)

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
        # No proxy out of the environment, no cookies, no redirects: a target is one address.
        timeout = aiohttp.ClientTimeout(total=DEADLINE)
        async with (
            aiohttp.ClientSession(timeout=timeout, cookie_jar=aiohttp.DummyCookieJar()) as session,
            asyncio.TaskGroup() as sending,
        ):
            with suppress(NotLeading):
                await self._look(
                    lambda target, job, news: sending.create_task(
                        self._send(session, target, job, news)
                    )
                )

    async def _look(self, send: Callable[[Target, Mapping[str, Any], News], object]) -> NoReturn:
        swept = self._clock.monotonic() - SWEEP
        while True:
            if self._waiting and self._clock.monotonic() - swept >= SWEEP:
                swept = self._clock.monotonic()
                for job in self._unfinished():
                    self.follow("MODIFIED", job)
            changed, self._changed = self._changed, {}
            for number, key in enumerate(changed, 1):
                for news, job, target in await self._note(key):
                    send(target, job, news)
                if number % READ_AT_ONCE == 0:
                    await self._clock.sleep(0)
            await self._clock.sleep(PERIOD)

    async def _note(self, key: JobKey) -> Sequence[tuple[News, Mapping[str, Any], Target]]:
        """Write down what is about to be told; what could not be written is not told yet."""
        found = self._job(key)
        if found is None:
            return []
        job, now = dict(found), self._clock.now()
        told = [
            (news, job, target)
            for news in news_of(job, now, waiting=self._waiting)
            for target in addressees(job, self._targets, news.happening)
        ]
        if not told:
            return []
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
            return []
        except ApiError as error:
            # A conflict: somebody else wrote, and what they wrote may be news too.
            log.info("notification postponed", **key._asdict(), error=str(error))
            self._changed[key] = None
            return []
        self._observe(patched)
        return told

    async def _send(
        self, session: aiohttp.ClientSession, target: Target, job: Mapping[str, Any], news: News
    ) -> None:
        async with self._slots:
            for attempt in range(1, ATTEMPTS + 1):
                problem = await self._post(session, target, body(target, job, news))
                if not problem:
                    self._observer.notified(target.name, "sent")
                    return
                if attempt < ATTEMPTS:
                    await self._clock.sleep(PAUSE * attempt)
            self._observer.notified(target.name, "failed")
            metadata = job["metadata"]
            log.warning(
                "notification failed",
                namespace=metadata["namespace"],
                name=metadata["name"],
                target=target.name,
                happening=news.happening.value,
                error=problem,
            )

    @staticmethod
    async def _post(session: aiohttp.ClientSession, target: Target, sent: dict[str, Any]) -> str:
        """What went wrong, without the URL, which is a secret; empty: nothing."""
        try:
            url = target.url_file.read_text("utf-8").strip()
            if not url.startswith(("https://", "http://")):
                return "its URL is none of http or https"
            async with session.post(url, json=sent, allow_redirects=False) as answer:
                return "" if answer.status < 300 else f"status {answer.status}"
        except (OSError, aiohttp.ClientError, TimeoutError, ValueError) as error:
            return type(error).__name__
