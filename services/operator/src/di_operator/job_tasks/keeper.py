"""A part of the leader, beside the reconciler: synchronizes DIJobTasks and their jobs."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, assert_never

import structlog
from structlog.contextvars import bound_contextvars

from di_api.names import OPERATOR_NAME
from di_api.ownership import controlling_job
from di_kube.cache import DELETED, WatchCache
from di_kube.client import KubeClient
from di_kube.errors import AlreadyExists, Conflict, Forbidden, Invalid, NotFound
from di_kube.resources import DIJOB_TASKS, DIJOBS
from di_kube.wire import JSON_PATCH
from di_operator.job_tasks.scalable import has_scalable_tasks, scalable_tasks
from di_operator.job_tasks.steps import (
    Clash,
    Make,
    Remove,
    Report,
    Request,
    Show,
    Step,
    Take,
    owner_name,
    steps,
)
from di_operator.lifecycle.observed.pods import PodReader
from di_operator.lifecycle.vocabulary.decision import JobEvent
from di_operator.lifecycle.vocabulary.reasons import Problem, Reason
from di_operator.process.controller import JobKey, Outdated

log = structlog.get_logger(__name__)

INDEX_OWNER: Final = "owner"
ATTEMPTS: Final = 5
"""How often the steps are computed again within one reconcile."""
SETTLE: Final = 0.2
"""Seconds to collect further events of a job's pods: each event is worth a reconcile over
all pods.
"""
NEXT_READ: Final = 0.5
"""Seconds until the watch has reported a deletion."""
SWEEP: Final = 60.0
"""Seconds between two reconciles of a job with such tasks: watches can lose events."""
REMEMBERED: Final = 1024
"""Number of remembered refusals and name conflicts; each is reported once. Also that of names that
jobs wait for.
"""


def index_owner(one: Mapping[str, Any]) -> list[str]:
    """Index a DIJobTask by the job that controls it."""
    name = owner_name(one)
    return [] if name is None else [f"{one['metadata']['namespace']}/{name}"]


class JobTasks:
    """Reconciles the DIJobTasks of one job after the other, as a controller requests it."""

    def __init__(
        self,
        *,
        client: KubeClient,
        found: WatchCache,
        job: Callable[[JobKey], Mapping[str, Any] | None],
        pods: Callable[[JobKey], Iterable[Mapping[str, Any]]],
        read_pod: PodReader,
        observe_job: Callable[[dict[str, Any]], None],
        emit: Callable[[Mapping[str, Any], JobEvent], None],
        wake: Callable[[JobKey, float], None],
        check_lease: Callable[[], None],
    ) -> None:
        """Put the parts together.

        Args:
            client: of the API server.
            found: the DIJobTasks, indexed by `index_owner`.
            job: returns a job from the cache.
            pods: returns the pods indexed under a job's name.
            read_pod: caches parsed pods.
            observe_job: stores a job as the API server returned it, and has it reconciled.
            emit: records an event on a job.
            wake: schedules `reconcile` for a job after some seconds.
            check_lease: raises NotLeading when the lease is lost.
        """
        self._client = client
        self._found = found
        self._job = job
        self._pods = pods
        self._read_pod = read_pod
        self._observe_job = observe_job
        self._emit = emit
        self._wake = wake
        self._check_lease = check_lease
        # Jobs with such tasks, for events of their pods; for other jobs the generation of the spec
        # without any, so that a change of their status costs nothing.
        self._scaled: set[JobKey] = set()
        self._plain: dict[JobKey, tuple[str, int]] = {}
        self._refused: OrderedDict[Request, None] = OrderedDict()
        self._clashes: OrderedDict[tuple[str, str], None] = OrderedDict()
        # Jobs whose DIJobTask has the name of another object, by its namespace and name.
        self._blocked: OrderedDict[tuple[str, str], set[JobKey]] = OrderedDict()

    def follow_job(self, kind: str, job: Mapping[str, Any]) -> None:
        """Record that a job has changed; the job is not read here."""
        metadata = job["metadata"]
        key = JobKey(metadata["namespace"], metadata["name"])
        if kind == DELETED:
            self._plain.pop(key, None)
            self._scaled.discard(key)
        elif self._plain.get(key) != _version(job):
            self._wake(key, 0.0)

    def follow_pod(self, _: str, pod: Mapping[str, Any]) -> None:
        """Record that a pod has changed."""
        name = (controlling_job(pod) or {}).get("name")
        if isinstance(name, str):
            key = JobKey(pod["metadata"]["namespace"], name)
            if key in self._scaled:
                self._wake(key, SETTLE)

    def follow_task(self, kind: str, one: Mapping[str, Any]) -> None:
        """Record that a DIJobTask has changed."""
        namespace = one["metadata"]["namespace"]
        if kind == DELETED:
            for key in self._blocked.pop((namespace, one["metadata"]["name"]), ()):
                self._wake(key, 0.0)
        if (name := owner_name(one)) is not None:
            key = JobKey(namespace, name)
            self._plain.pop(key, None)
            self._wake(key, 0.0)

    async def reconcile(self, key: JobKey) -> float | None:
        """Write what one job needs now; return the delay in seconds until the next reconcile, or
        None.

        Raises:
            NotLeading: the lease was lost.
            Outdated: the objects kept changing; try again later.
            ApiError: the API server is unreachable; try again later.
        """
        await self._found.synced.wait()
        for _ in range(ATTEMPTS):
            kept = self._job(key)
            if kept is None or self._plain.get(key) == _version(kept):
                return None
            job = dict(kept)
            own = self._found.by_index(INDEX_OWNER, f"{key.namespace}/{key.name}")
            if not has_scalable_tasks(job) and not own:
                self._scaled.discard(key)
                self._plain[key] = _version(job)
                return None
            self._scaled.add(key)
            in_the_way = [
                one
                for task in scalable_tasks(job)
                if (one := self._found.get(key.namespace, task.object_name)) is not None
            ]
            now = steps(
                job,
                [*own, *in_the_way],
                [*self._pods(key)],
                read_pod=self._read_pod,
                refused=self._refused,
            )
            with bound_contextvars(**key._asdict(), uid=job["metadata"]["uid"]):
                written = [await self._do(step, job, key) for step in now]
            if not any(written):
                gone = any(isinstance(step, Remove) for step in now)
                return NEXT_READ if gone else SWEEP
        raise Outdated(f"the tasks of {key.name} keep changing")

    async def report(self, key: JobKey, error: Exception) -> None:
        """Record an event about a reconcile that failed by a defect of the operator."""
        if (job := self._job(key)) is not None:
            message = f"its DIJobTasks: {type(error).__name__}: {error}"[:1000]
            self._emit(job, JobEvent(reason=Problem.RECONCILE_FAILED, message=message))

    async def _do(self, step: Step, job: Mapping[str, Any], key: JobKey) -> bool:
        """Execute a step; return False if it changed nothing."""
        self._check_lease()
        try:
            match step:
                case Make():
                    made = await self._client.create(DIJOB_TASKS, step.body, key.namespace)
                    self._found.absorb(made)
                case Take():
                    await self._take(step, job, key)
                case Show():
                    await self._patch(step.object_name, key, step.patch)
                case Report():
                    await self._patch(step.object_name, key, step.patch, subresource="status")
                case Remove():
                    await self._remove(step, key)
                    return False
                case Clash():
                    self._wait_for_name(step, key)
                    self._tell_clash(step, job)
                    return False
                case _:
                    assert_never(step)
        except (AlreadyExists, Conflict):
            await self._refresh(step, key)
        except NotFound as error:
            if error.kind == DIJOBS.kind:
                return False
            raise Outdated(f"{step} finds nothing") from error
        return True

    async def _take(self, step: Take, job: Mapping[str, Any], key: JobKey) -> None:
        possible = step.task.within_bounds(step.asked)
        try:
            patched = await self._client.patch(
                DIJOBS,
                key.name,
                step.operations,
                key.namespace,
                content_type=JSON_PATCH,
                field_manager=OPERATOR_NAME,
            )
        except (Forbidden, Invalid) as error:
            if await self._has_changed(job, key):
                # A path of the patch may be missing in the job by now, which is no refusal.
                return
            self._remember(self._refused, step.request)
            self._tell_refusal(step, job, step.task.replicas, error.message)
            return
        self._observe_job(patched)
        log.info("scaled", task=step.task.name, asked=step.asked, replicas=possible)
        if possible != step.asked:
            bounds = f"the task may have {step.task.least} to {step.task.most}"
            self._tell_refusal(step, job, possible, bounds)

    async def _has_changed(self, job: Mapping[str, Any], key: JobKey) -> bool:
        """Return whether the job was changed since a decision was made; stores what is read."""
        now = await self._client.get(DIJOBS, key.name, key.namespace)
        version = now["metadata"]["resourceVersion"]
        self._observe_job(now)
        return bool(version != job["metadata"]["resourceVersion"])

    async def _patch(
        self, name: str, key: JobKey, patch: dict[str, Any], *, subresource: str | None = None
    ) -> None:
        patched = await self._client.patch(
            DIJOB_TASKS,
            name,
            patch,
            key.namespace,
            subresource=subresource,
            field_manager=OPERATOR_NAME,
        )
        self._found.absorb(patched)

    async def _remove(self, step: Remove, key: JobKey) -> None:
        try:
            await self._client.delete(DIJOB_TASKS, step.object_name, key.namespace, uid=step.uid)
        except (Conflict, NotFound):
            # Deleted, or replaced by another one: the watch reports it.
            return

    async def _refresh(self, step: Step, key: JobKey) -> None:
        """Read the objects of a conflict again, because the watch can be slow."""
        if isinstance(step, Take):
            self._observe_job(await self._client.get(DIJOBS, key.name, key.namespace))
        elif not isinstance(step, Make):
            one = await self._client.get(DIJOB_TASKS, step.object_name, key.namespace)
            self._found.absorb(one)
        else:
            name = step.body["metadata"]["name"]
            self._found.absorb(await self._client.get(DIJOB_TASKS, name, key.namespace))

    def _tell_refusal(self, step: Take, job: Mapping[str, Any], replicas: int, reason: str) -> None:
        message = (
            f"{step.asked} replicas, written to DIJobTask {step.object_name}, are not possible; "
            f"task {step.task.name} has {replicas}: {reason}"
        )
        self._emit(job, JobEvent(reason=Reason.SCALE_REFUSED, message=message))

    def _wait_for_name(self, step: Clash, key: JobKey) -> None:
        self._blocked.setdefault((key.namespace, step.object_name), set()).add(key)
        if len(self._blocked) > REMEMBERED:
            # The job of the oldest one is reconciled after SWEEP.
            self._blocked.popitem(last=False)

    def _tell_clash(self, step: Clash, job: Mapping[str, Any]) -> None:
        known = job["metadata"]["uid"], step.object_name
        if known in self._clashes:
            return
        self._remember(self._clashes, known)
        message = (
            f"task {step.task} cannot be scaled by a DIJobTask: the one of the name "
            f"{step.object_name} is not of this job"
        )
        self._emit(job, JobEvent(reason=Reason.NOT_SCALABLE, message=message))

    @staticmethod
    def _remember(among: OrderedDict[Any, None], what: object) -> None:
        among[what] = None
        if len(among) > REMEMBERED:
            among.popitem(last=False)


def _version(job: Mapping[str, Any]) -> tuple[str, int]:
    metadata = job["metadata"]
    return metadata["uid"], metadata.get("generation") or 0
