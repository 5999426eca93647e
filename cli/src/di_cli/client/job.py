"""One job, as Python sees it."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from typing_extensions import override

from di_api.explain import Evidence, Explanation, explain
from di_api.field_error import mapping
from di_api.phase import Phase
from di_cli.access.history import SERVER_VARIABLE, HistoryAddress
from di_cli.actions.delete import delete, wait_until_gone
from di_cli.actions.history import open_history
from di_cli.actions.logs import NoPods, is_meant, sources_there
from di_cli.actions.push import push
from di_cli.actions.scale import scale
from di_cli.actions.suspend import set_suspended, wait_until_stopped
from di_cli.actions.wait import wait_for
from di_cli.client.curves import Curves, curves_of
from di_cli.client.errors import BadCall
from di_cli.client.pictures import lines, table
from di_cli.edits.scaling import ScalingError, Wish
from di_cli.errors import unknown_job
from di_cli.gather import gather
from di_cli.live.follow import follow
from di_cli.logs.followed import Followed
from di_cli.logs.merged import MOST_PODS, Line, read_all
from di_cli.logs.read import Asked
from di_cli.logs.sources import Source, sources_of
from di_cli.render.explanation import paragraph
from di_cli.views import jobs as views
from di_cli.views.reports import Reports

if TYPE_CHECKING:
    from di_cli.client.place import Place

Object = dict[str, Any]
_ENDED: Final = (Phase.SUCCEEDED, Phase.FAILED)


class Logs(list[str]):
    """Lines of logs; printed, they are text."""

    @override
    def __str__(self) -> str:
        return "\n".join(self)

    def _repr_html_(self) -> str:
        return lines(self)


@dataclass(frozen=True, slots=True)
class Why:
    """Why a job is in its state; printed, it is the text of `di why`.

    Attributes:
        cause: one word for programs.
        summary: one sentence.
        evidence: facts, the strongest first.
        remedy: what to do; empty if nothing has to be done.
    """

    cause: str
    summary: str
    evidence: tuple[Evidence, ...]
    remedy: str
    text: str

    @override
    def __str__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return lines([self.text])


class Job:
    """A job; its state is that of the last call, `refresh` and others read it again.

    Attributes:
        name: of the job.
        namespace: its namespace.
    """

    def __init__(self, place: Place, manifest: Object) -> None:
        self._place = place
        self._manifest = manifest
        self._reports = Reports()
        metadata = manifest["metadata"]
        self.name = str(metadata["name"])
        self.namespace = str(metadata.get("namespace") or place.namespace)
        self._see(manifest)

    @property
    def manifest(self) -> Object:
        """Return the DIJob with its status, as it was last read."""
        return self._manifest

    @property
    def phase(self) -> str:
        """Return the phase that was last read; empty before the first."""
        return str(self._status.get("phase") or "")

    @property
    def is_over(self) -> bool:
        """Return whether the job has succeeded or failed."""
        return self.phase in _ENDED

    @property
    def progress(self) -> float | None:
        """Return the reported share of the steps, 0 to 1; None without a report."""
        return views.progress_share(mapping(self._status.get("progress")))

    @override
    def __repr__(self) -> str:
        return f"<job {self.namespace}/{self.name}: {self.phase or 'new'}>"

    def _repr_html_(self) -> str:
        return job_table([self])

    def refresh(self) -> Self:
        """Read the job again; return it."""
        with self._place.session(self.name) as session:
            self._see(session.job(self.name))
        return self

    def wait(self, goal: str = "phase=Succeeded", timeout: float | None = None) -> Self:
        """Wait until the job is in a phase, has a condition, or is gone; return it.

        Args:
            goal: `phase=PHASE`, `condition=TYPE`, `condition=TYPE=False` or `delete`.
            timeout: in seconds; None: without a limit.

        Raises:
            EndedOtherwise: the job cannot reach the goal any more.
            TimedOut: the time has passed.
        """
        with self._place.session(self.name) as session:
            try:
                wait_for(session, self.name, goal, timeout, on_job=self._see)
            except ValueError as error:
                raise BadCall(str(error)) from error
        return self

    def watch(self) -> Iterator[Self]:
        """Yield the job at each change until it has ended or is gone."""
        with self._place.session(self.name) as session:
            for jobs in follow(session, namespace=self.namespace, name=self.name):
                found = jobs.get((self.namespace, self.name))
                if found is None:
                    return
                self._see(found)
                yield self
                if self.is_over:
                    return

    def logs(
        self,
        *,
        task: str | None = None,
        rank: int | None = None,
        container: str = "",
        tail: int | None = None,
        previous: bool = False,
    ) -> Logs:
        """Return the lines of all pods in order of time, each with its pod if there are several.

        Args:
            task: only its pods.
            rank: only the pod with it.
            container: its name; absent: the program's own.
            tail: number of last lines of each log; None: all.
            previous: of the run before the last restart.

        Raises:
            NotFound: the job has no pod of that task or rank, or no such container.
        """
        if tail is not None and tail < 0:
            raise BadCall(f"tail={tail} is no number of lines", remedy="tail=None is all of them")
        asked = Asked(container=container, tail=tail, previous=previous)
        with self._place.session(self.name) as session:
            try:
                found = sources_there(session, self.name, task=task, rank=rank, container=container)
            except NoPods:
                # A job without pods has no lines, but a task or rank may be a mistake.
                if task is None and rank is None:
                    return Logs()
                raise
            sources = found[:MOST_PODS]
            merged = read_all(session, sources, asked, on_none=_ignore)
            return Logs(_text(line, is_named=len(sources) > 1) for line in merged)

    def follow(
        self, *, task: str | None = None, rank: int | None = None
    ) -> Generator[str, None, None]:
        """Yield the lines of all pods, each with its pod, as they come until the job has ended."""

        def choose(pods: Iterable[Mapping[str, Any]]) -> list[Source]:
            return sources_of(pod for pod in pods if is_meant(pod, task, rank))

        with self._place.session(self.name) as session:
            session.job(self.name)
            followed = Followed(
                session, self.name, Asked(), choose, on_none=_ignore, on_job=self._see
            )
            for line in followed.lines():
                yield _text(line, is_named=True)

    def curves(
        self,
        history: str | None = None,
        *,
        account: str | None = None,
        authority: Path | None = None,
        tls_server_name: str = "",
    ) -> Curves:
        """Return the numbers that the job has reported, as curves.

        They are the reports that this object has seen, by `wait`, `watch` and `follow` each, by
        other calls the last one. di-history has all.

        Args:
            history: URL of di-history; absent: $DI_HISTORY_URL, else it is not read.
            account: service account for the request, NAME or NAMESPACE/NAME; absent: your own
                permissions.
            authority: file with the CA certificates of di-history, PEM.
            tls_server_name: expected name in its certificate; empty: the URL's host.
        """
        url = history or os.environ.get(SERVER_VARIABLE)
        if not url:
            return curves_of(self.refresh()._reports)
        with (
            self._place.session(self.name) as session,
            open_history(
                session,
                HistoryAddress(
                    server=url,
                    account=account,
                    authority=authority,
                    tls_server_name=tls_server_name,
                ),
            ) as kept,
        ):
            uid = str(self._manifest["metadata"].get("uid") or "")
            self._reports.read(kept.json(self.namespace, self.name, "/series", uid=uid))
        return curves_of(self._reports)

    def why(self) -> Why:
        """Return why the job waits, was restarted or failed, and what to do."""
        with self._place.session(self.name) as session:
            facts = gather(session, self.name)
            found = explain(facts)
            if facts.job is None:
                raise unknown_job(found)
            self._see(dict(facts.job))
            return why_of(found, facts.now)

    def scale(self, count: int | str | None = None, /, **tasks: int | str) -> list[str]:
        """Change the replicas of tasks: `scale(collector=8)`, `scale(collector="+2")`, `scale(8)`.

        Returns:
            A description of each change.
        """
        texts = [] if count is None else [str(count)]
        texts += [f"{task}={number}" for task, number in tasks.items()]
        if not texts:
            raise BadCall("scale() has no number", remedy="job.scale(collector=8)")
        try:
            wishes = [Wish.parse(text) for text in texts]
        except ScalingError as error:
            raise BadCall(str(error)) from error
        with self._place.session(self.name) as session:
            return [scale(session, self.name, wish) for wish in wishes]

    def push(
        self,
        program: str | Path | None = None,
        *,
        requirements: str | Path | None = None,
        store: str | None = None,
    ) -> list[str]:
        """Send changed code, after which all pods restart once; return the paths that changed.

        Args:
            program: a program or folder; absent: the same as before.
            requirements: file for pip; absent: the same as before.
            store: claim for code that ConfigMaps cannot hold; absent: the same as before.
        """
        path = None if program is None else str(program)
        needed = None if requirements is None else str(requirements)
        with self._place.session(self.name) as session:
            return push(session, self.name, path, needed, store).changed

    def suspend(self) -> Self:
        """End the job's pods in their grace period, and keep the job waiting; return it."""
        return self._suspended(value=True)

    def resume(self) -> Self:
        """Let a suspended job continue; return it."""
        return self._suspended(value=False)

    def stop(self, timeout: float | None = None) -> Self:
        """Suspend the job, and return it when its pods are gone. `resume` continues it.

        Raises:
            TimedOut: there are pods after this number of seconds.
        """
        self.suspend()
        with self._place.session(self.name) as session:
            wait_until_stopped(session, self.name, timeout)
        return self.refresh()

    def delete(self, *, wait: bool = False, timeout: float | None = None) -> None:
        """Delete the job; with `wait` return when its pods are gone."""
        with self._place.session(self.name) as session:
            delete(session, self.name, wait=wait)
            if wait:
                wait_until_gone(session, self.name, timeout)

    @property
    def _status(self) -> Mapping[str, Any]:
        return mapping(self._manifest.get("status"))

    def _suspended(self, *, value: bool) -> Self:
        with self._place.session(self.name) as session:
            self._see(set_suspended(session, self.name, value=value))
        return self

    def _see(self, manifest: Object) -> None:
        self._manifest = manifest
        self._reports.see(manifest)


def job_table(jobs: Iterable[Job], *, namespace: bool = False) -> str:
    """Return the table of `di list` as HTML."""
    now = datetime.now(UTC)
    rows = [views.cells(views.row(each.manifest, now), namespace=namespace) for each in jobs]
    return table(views.header(namespace=namespace), rows)


def why_of(found: Explanation, now: datetime) -> Why:
    """Return an explanation with its text."""
    text = "\n".join(paragraph(found, now))
    return Why(found.cause.value, found.summary, found.evidence, found.remedy, text)


def _text(line: Line, *, is_named: bool) -> str:
    return f"{line.pod}  {line.text}" if is_named else line.text


def _ignore(_source: Source, _why: str) -> None:
    """Skip a container without a log, as it has not begun."""
