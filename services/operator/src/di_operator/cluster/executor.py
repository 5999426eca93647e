"""Executes the actions of a decision."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import Any, Final, Protocol, assert_never

import structlog

from di_api.names import OPERATOR_NAME
from di_api.ownership import controlling_job, is_controlled_by, is_of_earlier_job
from di_kube.client import KubeClient
from di_kube.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    NotFound,
    Throttled,
    Unauthorized,
    Unavailable,
)
from di_kube.resources import SERVICES, WORKLOADS, Resource
from di_operator.cluster.companions import Companions
from di_operator.cluster.create_answers import dry_run, invalid, refusal
from di_operator.cluster.scheduling_objects import SchedulingObjects
from di_operator.cluster.unlabelled_pods import is_labelled
from di_operator.lifecycle.observed.pods import is_finished
from di_operator.lifecycle.vocabulary.actions import (
    Action,
    Create,
    CreateCompanion,
    CreateSchedulingObject,
    Creation,
    Delete,
    DryRun,
    Patch,
    PatchSchedulingObject,
    Reclaim,
    Replace,
    barrier,
)
from di_operator.lifecycle.write_errors import Fault, NameTaken, WorkloadRefused
from di_operator.process.concurrency import Tenants, Writers, spread
from di_operator.process.controller import JobKey, Outdated

# One line per action, at level debug, because a large job has thousands.
log = structlog.get_logger(__name__)


class Writes(Protocol):
    """The cache that stores the response of each write, so that the next decision includes it."""

    def observe(self, resource: Resource, body: dict[str, Any], *, is_news: bool = False) -> None:
        """Store an object as the API server returned it; `is_news` if it is not the response to a
        write, so that the decision did not expect it.
        """
        ...

    def forget(self, uid: str) -> None:
        """Record that the object of that UID is gone."""
        ...


class Observer(Protocol):
    """The metrics that the executor updates."""

    def acted(self, action: str, result: str) -> None:
        """Count one action with its result (`ok`, `refused`, `error`)."""
        ...


class OnRefused(Protocol):
    """Called when an object that a job needs could not be created.

    Gets the job, the API server's message, whether the server itself failed or was overloaded
    (`is_of_server`), and whether the request was a dry run.
    """

    def __call__(self, job: JobKey, message: str, *, is_of_server: bool, is_dry_run: bool) -> None:
        """Record the refusal."""
        ...


_NO_REFUSAL: Final = (AlreadyExists, Conflict, Gone, Unauthorized)
"""Responses that report nothing about the object."""


class Executor:
    """Runs actions in order; consecutive actions with the same label and stage run concurrently."""

    def __init__(
        self,
        *,
        client: KubeClient,
        writes: Writes,
        companions: Companions,
        scheduling_objects: SchedulingObjects,
        writers: Writers,
        tenants: Tenants,
        check_lease: Callable[[], None],
        observer: Observer,
        on_refused: OnRefused | None = None,
        on_dry_run_passed: Callable[[Mapping[str, Any]], None] | None = None,
    ) -> None:
        """`on_dry_run_passed` is called with a job whose pods the API server accepted in a
        dry run.
        """
        self._on_dry_run_passed = on_dry_run_passed
        self._on_refused = on_refused
        self._client = client
        self._writes = writes
        self._companions = companions
        self._scheduling_objects = scheduling_objects
        self._writers = writers
        self._tenants = tenants
        self._check_lease = check_lease
        self._observer = observer

    async def run(
        self, actions: Sequence[Action], *, job: JobKey, is_wanted: Callable[[], bool]
    ) -> list[Fault]:
        """Execute `actions` of `job`, and return the refusals that concern the job.

        Stops after a label and stage that contain a refused action, and when `is_wanted`, which is
        called after each action, returns False.

        Raises:
            NotLeading: the lease was lost; nothing further was written.
            Outdated: an object differs from what the decision was based on.
            ApiError: any other error; a retry of the same actions can succeed.
        """
        for _, batch in groupby(actions, key=barrier):
            faults = await self._run_batch(list(batch), job, is_wanted)
            if faults or not is_wanted():
                return faults
        asked = next((action.job for action in actions if isinstance(action, DryRun)), None)
        if asked is not None and self._on_dry_run_passed is not None:
            self._on_dry_run_passed(asked)
        return []

    async def _run_batch(
        self, batch: list[Action], job: JobKey, is_wanted: Callable[[], bool]
    ) -> list[Fault]:
        # Checked once per batch and not per write: a late write is harmless, because creates have
        # fixed names and an owner, and deletes and status patches carry preconditions.
        self._check_lease()
        if len(batch) == 1:
            fault = await self._run_one(batch[0], job)
            return [fault] if fault is not None else []
        faults, errors = list[Fault](), list[Exception]()

        async def act(action: Action) -> bool:
            try:
                fault = await self._run_one(action, job)
            except (ApiError, Outdated) as error:
                errors.append(error)
            else:
                if fault is not None:
                    faults.append(fault)
            return not faults and not errors and is_wanted()

        await spread(batch, act, in_company=partial(self._writers.has_company, job))
        if errors:
            raise errors[0]
        return faults

    async def _run_one(self, action: Action, job: JobKey) -> Fault | None:
        try:
            async with self._tenants.writing(job.namespace):
                with self._writers.writing(job):
                    fault = await self._act(action)
        except (ApiError, Outdated) as error:
            self._observer.acted(action.label, "error")
            if isinstance(error, ApiError) and _is_refusal(error):
                self._note_refused(action, job, error.message, is_of_server=_is_of_server(error))
            raise
        if fault is not None:
            self._note_refused(action, job, fault.message, is_of_server=False)
        self._observer.acted(action.label, "ok" if fault is None else "refused")
        return fault

    def _note_refused(
        self, action: Action, job: JobKey, message: str, *, is_of_server: bool
    ) -> None:
        if self._on_refused is not None and isinstance(action, Creation | DryRun):
            is_dry_run = isinstance(action, DryRun)
            self._on_refused(job, message, is_of_server=is_of_server, is_dry_run=is_dry_run)

    async def _act(self, action: Action) -> Fault | None:
        fault: Fault | None = None
        match action:
            case Create(resource=resource):
                fault = await self._create(resource, action.body)
            case DryRun(resource=resource):
                fault = await dry_run(self._client, resource, action.body)
            case CreateCompanion():
                fault = await self._companions.create(action)
            case CreateSchedulingObject():
                fault = await self._scheduling_objects.create(action)
            case PatchSchedulingObject():
                fault = await self._scheduling_objects.patch(action)
            case Replace(resource=resource):
                fault = await self._replace(resource, action.body)
            case Delete():
                await self._delete(action)
            case Reclaim():
                await self._reclaim(action)
            case Patch():
                fault = await self._patch(action)
            case _:
                assert_never(action)
        return fault

    async def _create(self, resource: Resource, body: Mapping[str, Any]) -> Fault | None:
        namespace = str(body["metadata"]["namespace"])
        try:
            created = await self._client.create(resource, dict(body), namespace)
        except AlreadyExists:
            return await self._exists(resource, body)
        except (NotFound, Invalid, Forbidden) as error:
            return refusal(resource, error)
        self._writes.observe(resource, created)
        log.debug("created", kind=resource.kind, object=body["metadata"]["name"])
        return None

    async def _exists(self, resource: Resource, wanted: Mapping[str, Any]) -> Fault | None:
        """Judge an existing object whose name a create needs; return the fault that it is, if any.

        None if it is the job's own: the create succeeded earlier and its response was lost, or the
        cache is behind.
        """
        metadata = wanted["metadata"]
        try:
            found = await self._client.get(resource, metadata["name"], metadata["namespace"])
        except NotFound as error:
            raise Outdated(f"{error.target} is gone again") from error
        job = controlling_job(wanted)
        assert job is not None, "whatever is created here belongs to a job"
        ours = is_controlled_by(found, job["uid"])
        if ours and not is_labelled(found):
            # Invisible to the watch: counted as created, it would be created again forever.
            return NameTaken(resource=resource, found=found)
        if ours and "deletionTimestamp" not in found["metadata"]:
            self._writes.observe(resource, found, is_news=True)
            if is_finished(found):
                # Not the object to be created: its delete did not happen, whatever the response
                # said.
                raise Outdated(f"{resource.kind} {metadata['name']} has ended already")
            return None
        if ours or is_of_earlier_job(found, name=job["name"], uid=job["uid"]):
            self._writes.observe(resource, found)
            raise Outdated(f"{resource.kind} {metadata['name']} has to go first")
        return NameTaken(resource=resource, found=found)

    async def _replace(self, resource: Resource, body: Mapping[str, Any]) -> Fault | None:
        metadata = body["metadata"]
        try:
            replaced = await self._client.replace(
                resource, metadata["name"], dict(body), metadata["namespace"]
            )
        except NotFound as error:
            raise Outdated(str(error)) from error
        except Conflict as error:
            await self._look(resource, metadata["namespace"], metadata["name"])
            raise Outdated(str(error)) from error
        except Invalid as error:
            return invalid(resource, error)
        self._writes.observe(resource, replaced)
        log.debug("replaced", kind=resource.kind, object=metadata["name"])
        return None

    async def _reclaim(self, action: Reclaim) -> None:
        resource = action.resource
        marks: dict[str, Any] = {"labels": action.labels, "annotations": action.annotations}
        try:
            patched = await self._client.patch(
                resource,
                action.name,
                {"metadata": {"uid": action.uid, **marks}},
                action.namespace,
                field_manager=OPERATOR_NAME,
            )
        except NotFound:
            self._writes.forget(action.uid)
            return
        except (Conflict, Invalid) as error:
            # Another object has the name.
            raise Outdated(str(error)) from error
        lost = [
            key
            for field in ("labels", "annotations")
            for key, value in marks[field].items()
            if (patched["metadata"].get(field) or {}).get(key) != value
        ]
        self._writes.observe(resource, patched)
        log.debug("labelled again", kind=resource.kind, object=action.name)
        if lost:
            # Another client removes the labels again: retry only after a backoff.
            raise Outdated(f"{resource.kind} {action.name} does not keep {', '.join(lost)}")

    async def _patch(self, action: Patch) -> Fault | None:
        resource = action.resource
        try:
            patched = await self._client.patch(
                resource,
                action.name,
                dict(action.body),
                action.namespace,
                subresource=action.subresource,
                field_manager=OPERATOR_NAME,
            )
        except NotFound as error:
            self._writes.forget(action.uid)
            raise Outdated(str(error)) from error
        except Conflict as error:
            await self._look(resource, action.namespace, action.name)
            raise Outdated(str(error)) from error
        except (Invalid, Forbidden) as error:
            if resource == WORKLOADS:
                return WorkloadRefused(message=error.message)
            raise
        metadata = patched["metadata"]
        if resource == SERVICES and not _keeps(patched, action.patch):
            self._writes.observe(resource, patched)
            # Another client changes it again: retry only after a backoff.
            raise Outdated(f"Service {action.name} does not keep what was patched")
        is_gone = "deletionTimestamp" in metadata and not metadata.get("finalizers")
        log.debug("patched", kind=resource.kind, object=action.name)
        if is_gone and resource == WORKLOADS:
            self._writes.forget(action.uid)
        else:
            self._writes.observe(resource, patched)
        return None

    async def _delete(self, action: Delete) -> None:
        resource = action.resource
        try:
            left = await self._client.delete(
                resource,
                action.name,
                action.namespace,
                uid=action.uid,
                resource_version=action.resource_version,
                grace_period_seconds=action.grace_period_seconds,
            )
        except NotFound:
            self._writes.forget(action.uid)
        except Conflict as error:
            now = await self._look(resource, action.namespace, action.name)
            if now is not None and now["metadata"]["uid"] == action.uid:
                raise Outdated(str(error)) from error
            # The object to delete is gone; its name is free or belongs to another object.
            self._writes.forget(action.uid)
        else:
            log.debug("deleted", kind=resource.kind, object=action.name)
            if _is_terminating(left.get("metadata", {})):
                self._writes.observe(resource, left)
            else:
                self._writes.forget(action.uid)

    async def _look(self, resource: Resource, namespace: str, name: str) -> dict[str, Any] | None:
        """Read one object again and store it in the cache."""
        try:
            found = await self._client.get(resource, name, namespace)
        except NotFound:
            return None
        # Read before the object is stored: the cache drops fields that it does not need.
        self._writes.observe(resource, found, is_news=True)
        return found


def _is_terminating(metadata: Mapping[str, Any]) -> bool:
    """Return whether a deleted object still exists, by the metadata in the response.

    One without a grace period and without finalizers is gone. In the cache it would stay, and keep
    its name taken, until the watch reports its deletion.
    """
    if "deletionTimestamp" not in metadata:
        return False
    return metadata.get("deletionGracePeriodSeconds") != 0 or bool(metadata.get("finalizers"))


def _keeps(found: Mapping[str, Any], patch: Mapping[str, Any]) -> bool:
    """Return whether an object has the values of a merge patch of its spec."""
    wanted = patch["spec"].get("selector") or {}
    has = found["spec"].get("selector") or {}
    return all(has.get(key) == value for key, value in wanted.items())


def _is_refusal(error: ApiError) -> bool:
    """Return whether the API server refused the request. A webhook can return any status code."""
    return error.code > 0 and not isinstance(error, _NO_REFUSAL)


def _is_of_server(error: ApiError) -> bool:
    return isinstance(error, Throttled | Unavailable)
