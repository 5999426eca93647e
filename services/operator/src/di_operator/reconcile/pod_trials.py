"""Dry runs of the pods of jobs that wait, beside the reconciles: one for each template and spec.

In memory alone: a new leader asks again. A namespace has one request under way at a time, and rests
after each job, so that a thousand suspended jobs keep neither the API server nor others waiting.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import inf
from operator import attrgetter
from typing import Any, Final

import structlog

from di_kube.client import KubeClient
from di_kube.resources import PODS
from di_operator.cluster.create_answers import dry_run
from di_operator.cluster.executor import Observer
from di_operator.lifecycle.job_types.choose import job_type_of
from di_operator.lifecycle.observed.snapshot import Snapshot
from di_operator.lifecycle.observed.trial import Trial
from di_operator.lifecycle.vocabulary.actions import Recipe
from di_operator.lifecycle.vocabulary.conditions import MAX_MESSAGE, is_true
from di_operator.lifecycle.vocabulary.reasons import Problem
from di_operator.lifecycle.write_errors import Fault, gravest
from di_operator.process.controller import JobKey
from di_operator.process.queue import KeyQueue
from di_operator.reconcile.job_reader import JobReader

log = structlog.get_logger(__name__)

WORKERS: Final = 4
"""Namespaces whose jobs are tried at the same time."""
REST: Final = 0.1
"""Seconds between two jobs of a namespace."""
SETTLE: Final = 1.0
"""Seconds before a job is tried: most queues admit one that fits sooner, and then no dry run is
needed."""
BACKOFF: Final = (1.0, 60.0)
"""Seconds until a job is tried again after no answer, at least and at most."""
SHORTEST: Final = 15.0
LONGEST: Final = 600.0
"""Bounds in seconds of the delay before refused pods are tried again: a policy may change."""
MOST_BYTES: Final = 4 * 1024 * 1024
"""Bytes of all answers that are remembered: those of some ten thousand jobs."""
ANSWER_BYTES: Final = 400
"""Bytes of one answer without its text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    """What is remembered of one job."""

    generation: object
    trial: Trial
    since: float
    """When pods of this spec were refused first."""
    due: float
    """When they are tried again."""

    @property
    def size(self) -> int:
        """Bytes, about."""
        return ANSWER_BYTES + len(self.trial.message)


class Trials:
    """The jobs to be tried, and the answers about those that were, the oldest forgotten first."""

    def __init__(self, *, monotonic: Callable[[], float], most_bytes: int = MOST_BYTES) -> None:
        """`monotonic` returns seconds."""
        self.queue: KeyQueue[JobKey] = KeyQueue(group=attrgetter("namespace"), at_once=1, rest=REST)
        self._monotonic = monotonic
        self._most_bytes = most_bytes
        self._answers: OrderedDict[str, _Answer] = OrderedDict()
        self._bytes = 0

    def ask(self, key: JobKey) -> None:
        """Have the pods of a job tried."""
        self.queue.add_after(key, SETTLE)

    def known(self, job: Mapping[str, Any]) -> Trial | None:
        """The answer about the present spec of a job; None: it was not tried."""
        answer = self._answer(job)
        return None if answer is None else answer.trial

    def until_due(self, job: Mapping[str, Any]) -> float | None:
        """Seconds until the pods of a job are to be tried; None: not again."""
        answer = self._answer(job)
        if answer is None:
            return 0.0
        return None if answer.due == inf else max(0.0, answer.due - self._monotonic())

    def put(self, job: Mapping[str, Any], trial: Trial) -> None:
        """Store the result of a dry run, and when the next one is due."""
        now, before = self._monotonic(), self._answer(job)
        is_again = before is not None and before.trial.reason is not None
        since = before.since if is_again and before is not None else now
        # As long again as they have been refused so far.
        delay = inf if trial.reason is None else min(LONGEST, max(SHORTEST, now - since))
        metadata = job["metadata"]
        self.forget(metadata["uid"])
        answer = _Answer(
            generation=metadata.get("generation"), trial=trial, since=since, due=now + delay
        )
        self._answers[metadata["uid"]] = answer
        self._bytes += answer.size
        while self._bytes > self._most_bytes:
            self.forget(next(iter(self._answers)))

    def forget(self, uid: str) -> None:
        """Take in that a job is gone, or does not wait any more."""
        if (answer := self._answers.pop(uid, None)) is not None:
            self._bytes -= answer.size

    def _answer(self, job: Mapping[str, Any]) -> _Answer | None:
        metadata = job["metadata"]
        answer = self._answers.get(metadata["uid"])
        is_present = answer is not None and answer.generation == metadata.get("generation")
        return answer if is_present else None


class PodTrials:
    """Tries one job after the other, as a controller calls it."""

    def __init__(
        self,
        *,
        client: KubeClient,
        reader: JobReader,
        trials: Trials,
        wake_reconciler: Callable[[JobKey, float], None],
        observer: Observer,
    ) -> None:
        """`wake_reconciler` has a job reconciled after some seconds."""
        self._client = client
        self._reader = reader
        self._trials = trials
        self._wake_reconciler = wake_reconciler
        self._observer = observer

    async def reconcile(self, key: JobKey) -> float | None:
        """Try the pods of a job if it still waits; returns when to do it again, in seconds.

        Raises ApiError if the API server judges none of them now.
        """
        job = self._reader.job(key)
        if job is None:
            return None
        job = dict(job)
        if not self._reader.has_cheap_spec(job):
            await self._reader.examine(job)
        settings = await self._reader.settings()
        snapshot = self._reader.snapshot(job, key)
        if not snapshot.is_held_back:
            self._trials.forget(snapshot.uid)
            return None
        wait = self._trials.until_due(job)
        if wait is None or wait > 0:
            return wait
        job_type = job_type_of(job, snapshot.spec)
        faults = await self._refusals(job_type.samples(snapshot, settings))
        trial = _trial(snapshot, faults)
        self._trials.put(job, trial)
        if trial.reason is not None or is_true(snapshot.status.conditions, Problem.PODS_REFUSED):
            log.info("pods tried", **key._asdict(), reason=trial.reason, by=trial.message)
            self._wake_reconciler(key, 0.0)
        return self._trials.until_due(job)

    async def report(self, key: JobKey, error: Exception) -> None:
        """Take in a mistake of ours, which the controller logs: the job itself is as it was."""

    async def _refusals(self, recipes: Iterable[Recipe]) -> list[Fault]:
        faults: list[Fault] = []
        for recipe in recipes:
            fault = await dry_run(self._client, PODS, recipe.build())
            self._observer.acted("DryRunPod", "ok" if fault is None else "refused")
            if fault is not None:
                faults.append(fault)
        return faults


def _trial(snapshot: Snapshot, faults: list[Fault]) -> Trial:
    """What refused dry runs mean, in the words that a refused create has."""
    if not faults:
        return Trial()
    refused = job_type_of(snapshot.job, snapshot.spec).refused(snapshot)
    rule = snapshot.rule(gravest(faults).seen, refused)
    assert rule.reason is not None, f"a refused create has a reason: {rule}"
    texts = dict.fromkeys(fault.message for fault in faults)
    return Trial(reason=rule.reason, message="; ".join(texts)[:MAX_MESSAGE])
