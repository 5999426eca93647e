"""The session of a command: API server, namespace, and the API server's clock."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from time import monotonic
from typing import TYPE_CHECKING, Any

from di_api.names import LABEL_JOB
from di_cli.access.kubeconfig import Access, read_access
from di_cli.access.local_runs import end_of_run, meant_runs, the_one
from di_cli.errors import CommandError, from_api
from di_cli.exit_codes import ExitCode
from di_cli.hints import remember
from di_cli.output import note
from di_cli.render.reading import ReadingLine
from di_cli.views.queued import Places, is_queued, places
from di_kube.config import ConfigError
from di_kube.errors import ApiError
from di_kube.resources import DIJOBS, EVENTS, NODES, PODS, WORKLOADS
from di_kube.server_time import ServerTime
from di_kube.sync import SyncKubeClient

if TYPE_CHECKING:
    from di_local.runs import Run

Object = dict[str, Any]
TIMEOUT = 20.0
"""Timeout of a request in seconds."""


@dataclass(slots=True)
class Session:
    """One command's access to the API server.

    Attributes:
        client: has the user's permissions.
        access: configuration.
        namespace: of the command.
        time: of the API server.
        run: the local run, if this is its API.
    """

    client: SyncKubeClient
    access: Access
    namespace: str
    time: ServerTime
    run: Run | None = None

    def now(self) -> datetime:
        """Return the time by the API server's clock, so that ages are right on any machine."""
        return self.time.now()

    @property
    def is_over(self) -> bool:
        """Return whether the session's local run has ended, so that its API does not respond."""
        return self.run is not None and not self.run.is_under_way

    def job(self, name: str) -> Object:
        """Return a job of the namespace."""
        return self.client.get(DIJOBS, name, self.namespace)

    def create_job(
        self,
        job: Object,
        *,
        namespace: str | None = None,
        source: str = "",
        dry_run: bool = False,
    ) -> Object:
        """Create a job, in the API version of its manifest; return it.

        Args:
            namespace: absent: that of the session.
            source: where the manifest is from, for errors.
            dry_run: check the job and store nothing.

        Raises:
            CommandError: it was refused, also for an unknown field.
        """
        namespace, metadata = namespace or self.namespace, job.get("metadata") or {}
        version = str(job["apiVersion"]).partition("/")[2]
        name = metadata.get("name") or metadata.get("generateName")
        try:
            return self.client.create(
                replace(DIJOBS, version=version), job, namespace, dry_run=dry_run, strict=True
            )
        except ApiError as error:
            where = f"{source}: " if source else ""
            raise from_api(error, f"{where}DIJob {namespace}/{name}") from error

    def jobs(self, *, all_namespaces: bool = False, selector: str | None = None) -> list[Object]:
        """Return the jobs of the namespace, or of all."""
        return [*self.each_job(all_namespaces=all_namespaces, selector=selector)]

    def each_job(
        self, *, all_namespaces: bool = False, selector: str | None = None
    ) -> Iterator[Object]:
        """Yield the jobs of the namespace, or of all, and hold no more than a page of them. A
        terminal shows how many have been read.
        """
        namespace = None if all_namespaces else self.namespace
        line = ReadingLine("jobs")
        try:
            yield from self.client.each(
                DIJOBS, namespace, label_selector=selector, on_page=line.add
            )
        finally:
            line.clear()

    def pods(self, job: str) -> list[Object]:
        """Return the pods of a job."""
        return self.client.list(PODS, self.namespace, label_selector=f"{LABEL_JOB}={job}")[0]

    def events(self, job: str, claims: Collection[str] = ()) -> list[Object]:
        """Return the events of a job and its pods, deleted pods included, and of volume claims."""
        from di_api.explain.claims import is_of_claim  # noqa: PLC0415  most commands need no events

        found, _ = self.client.list(EVENTS, self.namespace)
        return [
            event
            for event in found
            if _is_about(event.get("involvedObject") or {}, job) or is_of_claim(event, claims)
        ]

    def places(self, jobs: Iterable[Object], *, all_namespaces: bool = False) -> Places:
        """Return the places of waiting jobs in queues of Kueue, as far as the user can read
        Workloads; without a waiting job nothing is read.
        """
        if not any(map(is_queued, jobs)):
            return {}
        try:
            namespace = None if all_namespaces else self.namespace
            return places(self.client.list(WORKLOADS, namespace)[0])
        except ApiError:
            return {}

    def nodes(self) -> list[Object]:
        """Return the cluster's nodes; empty without permission to read them."""
        try:
            return self.client.list(NODES)[0]
        except ApiError:
            return []


@contextmanager
def open_session(
    namespace: str | None = None,
    context: str | None = None,
    *,
    job: str | None = None,
    local: bool | None = False,
    connections: int = 2,
) -> Iterator[Session]:
    """Open a session. Refusals of the API server are raised as CommandError.

    Args:
        namespace: absent: that of the context.
        context: absent: the current one.
        job: the job of the command, if there is one.
        local: whether it is about a local run; None: if the job runs locally.
        connections: maximum number of open connections.
    """
    run = the_one(meant_runs(job, namespace=namespace, context=context, local=local))
    if run is not None and job is not None and local is None:
        note(f"{job} is the run on this machine; --cluster means the cluster's")
    with _opened(namespace, context, run, job=job, connections=connections) as session:
        yield session


@contextmanager
def open_sessions(
    namespace: str | None = None, context: str | None = None, *, local: bool | None = None
) -> Iterator[list[Session]]:
    """Open a session for each API with jobs to list: the cluster's, or one for each local run."""
    runs = meant_runs(None, namespace=namespace, context=context, local=local)
    with ExitStack() as opened:
        if local or runs:
            found = [_opened(namespace, None, run) for run in runs]
        else:
            found = [_opened(namespace, context, None)]
        yield [opened.enter_context(each) for each in found]


@contextmanager
def open_sessions_of(
    names: Iterable[str],
    namespace: str | None = None,
    context: str | None = None,
    *,
    local: bool | None = None,
) -> Iterator[dict[str, Session]]:
    """Open the session of each job by its name; jobs of the cluster share one."""
    with ExitStack() as opened:
        by_run: dict[str, Session] = {}
        found = {}
        for name in names:
            run = the_one(meant_runs(name, namespace=namespace, context=context, local=local))
            key = str(run.directory) if run else ""
            if run and local is None:
                note(f"{name} is the run on this machine; --cluster means the cluster's")
            if key not in by_run:
                by_run[key] = opened.enter_context(_opened(namespace, context, run, job=name))
            found[name] = by_run[key]
        yield found


@contextmanager
def open_run(run: Run, *, connections: int = 2) -> Iterator[Session]:
    """Open a session of a local run, as `open_session` does."""
    with _opened(run.namespace, None, run, job=run.job, connections=connections) as session:
        yield session


@contextmanager
def _opened(
    namespace: str | None,
    context: str | None,
    run: Run | None,
    *,
    job: str | None = None,
    connections: int = 2,
) -> Iterator[Session]:
    remember(namespace, context)
    with refusals(job):
        access = read_access(context, file=run.kubeconfig if run else None)
        time = ServerTime(wall=lambda: datetime.now(UTC), monotonic=monotonic)
        with SyncKubeClient(
            config=access.config,
            timeout=TIMEOUT,
            connections=connections,
            on_date=time.observe,
        ) as client:
            yield Session(client, access, namespace or access.namespace, time, run)


@contextmanager
def refusals(job: str | None = None) -> Iterator[None]:
    """Raise errors of the configuration and of the API server as CommandError.

    Args:
        job: the job of the command, if there is one.
    """
    try:
        yield
    except ConfigError as error:
        raise CommandError(
            "the kubeconfig cannot be used",
            where=f"{error}\n{end_of_run(job) if job else ''}",
            remedy="kubectl config get-contexts; --context chooses another one",
            code=ExitCode.NOT_FOUND,
        ) from error
    except ApiError as error:
        refused = from_api(error)
        if job and error.code in (0, 404) and (over := end_of_run(job)):
            refused.where = f"{refused.where}\n{over}"
        raise refused from error


def _is_about(involved: Object, job: str) -> bool:
    """Return whether an event is about the job or a pod of it. The labels of a deleted pod are
    gone, but its name begins with the job's.
    """
    name, kind = str(involved.get("name") or ""), involved.get("kind")
    return (kind == "DIJob" and name == job) or (kind == "Pod" and name.startswith(f"{job}-"))
