"""Jobs as processes of this machine, for Python programs and notebooks: `jobs.local()`.

Each job is a process `di run`, which ends with the process that started it.
"""

from __future__ import annotations

import builtins
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self, Unpack

import yaml
from typing_extensions import override

from di_api.explain import Facts, explain
from di_api.field_error import mapping
from di_api.phase import Phase
from di_cli.access.local_runs import known_runs
from di_cli.actions.manifest import documents_of
from di_cli.actions.program import is_program
from di_cli.actions.wait import not_reached
from di_cli.client.client import Jobs
from di_cli.client.errors import BadCall, EndedOtherwise, JobsError, NotFound, TimedOut, raised
from di_cli.client.job import Job, Logs, Why, why_of
from di_cli.client.local_runs import END_SECONDS, POLL_SECONDS, Process, kept_folder, start_run
from di_cli.client.local_sweeps import LocalSweep, run_sweep
from di_cli.client.options import (
    LocalOptions,
    check_manifest,
    counts_of,
    local_changes_of,
    requirements_of,
    takes,
)
from di_cli.client.place import CONNECTIONS, Place
from di_cli.client.studies import optimize
from di_cli.client.submission import What, not_submitted, words_of, written
from di_cli.documents import numbered
from di_cli.edits.manifests import ManifestError, changed, jobs_of
from di_cli.errors import from_clone
from di_cli.session import open_run
from di_cli.views.waiting import Goal, Outcome

if TYPE_CHECKING:
    from di_local.runs import Run

Object = dict[str, Any]
_LINES: Final = 100
"""Last lines of a log in which an explanation of an ended job finds the error."""
_ENDED: Final = "Ended"
"""Phase of a job whose run was ended, or was killed, before the job succeeded or failed."""
_NO_PUSH: Final = "a job on this machine starts the files themselves, so nothing is pushed"


class LocalJob(Job):
    """A job of a run on this machine. After its end it is what the run's directory has."""

    def __init__(self, run: Run, manifest: Object, process: Process | None = None) -> None:
        connect = partial(open_run, run, connections=CONNECTIONS)
        super().__init__(Place(connect=connect), manifest)
        self._run, self._process = run, process

    @property
    def directory(self) -> Path:
        """Return the directory of the run, with its logs."""
        return self._run.directory

    @property
    @override
    def is_over(self) -> bool:
        """Return whether the job has succeeded or failed, or its run has ended."""
        return super().is_over or not self._is_live

    @override
    def refresh(self) -> Self:
        """Read the job again; return it."""
        if self._is_live:
            with self._unless_ended():
                return super().refresh()
        self._see(_as_ended(self._run.last_job or self.manifest))
        return self

    @override
    def wait(self, goal: str = "phase=Succeeded", timeout: float | None = None) -> Self:
        """Wait until the job is in a phase, has a condition, or is gone; return it."""
        if self._is_live:
            with self._unless_ended():
                return super().wait(goal, timeout)
        self.refresh()
        with raised(None, None):
            try:
                outcome = Goal.parse(goal).judge(self.manifest)
            except ValueError as error:
                raise BadCall(str(error)) from error
            if outcome is not Outcome.REACHED and goal != "delete":
                raise not_reached(self.name, goal, self.manifest)
        return self

    @override
    def watch(self) -> Iterator[Self]:
        """Yield the job at each change until it has ended."""
        last = ""
        if self._is_live:
            with self._unless_ended():
                for each in super().watch():
                    last = each.phase
                    yield each
        if self.refresh().phase != last:
            yield self

    @override
    def logs(
        self,
        *,
        task: str | None = None,
        rank: int | None = None,
        container: str = "",
        tail: int | None = None,
        previous: bool = False,
    ) -> Logs:
        """Return the lines of all pods; after the end of the job pod by pod."""
        # The pods of a job that has ended go before its run does.
        if not self.is_over:
            try:
                return super().logs(
                    task=task, rank=rank, container=container, tail=tail, previous=previous
                )
            except JobsError:
                if not self.refresh().is_over:
                    raise
        if rank is not None or previous:
            raise BadCall(
                f"{self.name} is over, and its logs are chosen by task and container alone",
                where=f"logs: {self.directory}",
            )
        found = {
            pod: lines
            for pod, lines in self._ended_logs(tail, container).items()
            if task is None or pod.startswith(f"{self.name}-{task}-")
        }
        is_named = len(found) > 1
        return Logs(
            f"{pod}  {line}" if is_named else line for pod, lines in found.items() for line in lines
        )

    @override
    def why(self) -> Why:
        """Return why the job waits, was restarted or failed, and what to do."""
        if self._is_live:
            with self._unless_ended():
                return super().why()
        if self.refresh().phase == _ENDED:
            return _why_ended(self.name, self.directory)
        facts = Facts(
            name=self.name,
            namespace=self.namespace,
            now=datetime.now(UTC),
            job=self.manifest,
            logs=self._ended_logs(_LINES),
        )
        return why_of(explain(facts), facts.now)

    @override
    def push(
        self,
        program: object = None,
        *,
        requirements: str | Path | None = None,
        store: str | None = None,
    ) -> list[str]:
        """Refuse: processes of this machine start the files themselves."""
        raise BadCall(_NO_PUSH, remedy="job.delete(), and submit() again")

    @override
    def delete(self, *, wait: bool = False, timeout: float | None = None) -> None:
        """End the job and its run; with `wait` return when no process of it runs."""
        if not self._is_live:
            return
        with self._unless_ended():
            super().delete()
        seconds = END_SECONDS if timeout is None else timeout
        if wait and not self._has_ended(seconds):
            raise TimedOut(f"the run of {self.name} has not ended after {seconds:g} s")

    @property
    def _is_live(self) -> bool:
        # A child that has ended exists until its exit code is read.
        if self._process is not None and self._process.poll() is not None:
            return False
        return self._run.is_under_way

    @contextmanager
    def _unless_ended(self) -> Iterator[None]:
        """Leave out errors of a run that has just ended."""
        try:
            yield
        except (EndedOtherwise, NotFound):
            # The end of a job is that of its run, a moment later.
            if not self._has_ended(END_SECONDS):
                raise
        except JobsError:
            if self._is_live:
                raise

    def _has_ended(self, seconds: float) -> bool:
        """Wait for the end of the run; return whether it came within that time."""
        end = time.monotonic() + seconds
        while self._is_live and time.monotonic() < end:
            time.sleep(POLL_SECONDS)
        return not self._is_live

    def _ended_logs(self, tail: int | None, container: str = "") -> dict[str, list[str]]:
        from di_local.logs import last_lines, log_files  # noqa: PLC0415  # another package

        found: dict[str, list[str]] = {}
        for path in log_files(self.directory / "pods"):
            if container in ("", path.stem):
                found.setdefault(path.parent.parent.name, []).extend(last_lines(path, tail))
        return found


class LocalClient:
    """Jobs as processes of this machine. They end with this process, so wait for them."""

    def __init__(self) -> None:
        if find_spec("di_local") is None:
            raise JobsError(
                "jobs on this machine need the package di-local, which is not installed",
                remedy=from_clone("local"),
            )

    @takes(LocalOptions)
    def submit(self, program: What, **options: Unpack[LocalOptions]) -> LocalJob:
        """Run a job here; return it. The parameters are those of `Client.submit`.

        Args:
            program: a program or folder, a function, a manifest's file or the manifest, or the name
                of an example. The programs of a manifest without a file start in the working
                directory.
            image: run in containers of this image; absent: as processes.
            requirements: has no effect, because processes use the packages of this machine.
            gpus: has no effect, because every process sees all GPUs.
        """
        arguments = options.get("args", ())
        if isinstance(program, Mapping):
            return _of_manifest([dict(program)], "the manifest", Path.cwd(), options)
        if callable(program):
            path = written(program, arguments, kept_folder())
            return _started([str(path), *_words(options)])
        path = Path(program)
        if is_program([str(program)], options.get("entry")):
            return _started([str(path), *_words(options), "--", *words_of(arguments)])
        try:
            documents = documents_of(str(program))
        except ManifestError as error:
            raise not_submitted(error) from error
        folder = path.resolve().parent if path.is_file() else Path.cwd()
        return _of_manifest(documents, str(program), folder, options)

    def sweep(
        self, what: str | Path | Mapping[str, Any], *, parallelism: int | None = None
    ) -> LocalSweep:
        """Run a sweep here; return it. It ends with this process, so wait for it.

        Args:
            what: file of a manifest, or the manifest.
            parallelism: trials at the same time, in place of the manifest's number.
        """
        return run_sweep(what, parallelism)

    def optimize(
        self,
        study: Any,
        what: str | Path | Mapping[str, Any],
        *,
        parallelism: int | None = None,
    ) -> None:
        """Run the trials of a sweep here, as `Client.optimize` does in a cluster. The programs of a
        manifest without a file start in the working directory.
        """
        folder = Path.cwd() if isinstance(what, Mapping) else Path(what).resolve().parent
        optimize(
            study,
            what,
            parallelism=parallelism,
            submit=lambda job: _of_manifest([job], str(job["metadata"]["name"]), folder, {}),
            end=lambda job: job.delete(),
        )

    def get(self, name: str) -> LocalJob:
        """Return the last job of that name that ran here. Raises NotFound."""
        for job in self.list():
            if job.name == name:
                return job
        raise NotFound(f"no job {name} has run on this machine", remedy="jobs.local().list()")

    def list(self) -> Jobs[LocalJob]:
        """Return the jobs that run here, and the last ones that ended, the latest first."""
        return Jobs(LocalJob(run, _first_state(run)) for run in known_runs() if not run.is_sweep)


def local() -> LocalClient:
    """Return the jobs of this machine, which run as processes of it, without a cluster."""
    return LocalClient()


def _of_manifest(
    documents: Iterable[Any], source: str, folder: Path, options: LocalOptions
) -> LocalJob:
    """Run the job of a manifest with the changes that the options are. Raises JobsError."""
    check_manifest(options)
    try:
        jobs, others = _divided(documents)
        found = [changed(job, local_changes_of(options)) for job in jobs_of(jobs, source)]
    except ManifestError as error:
        raise not_submitted(error) from error
    if len(found) != 1:
        raise BadCall(f"{source} has {len(found)} DIJobs, and submit() takes one")
    path = kept_folder() / "job.yaml"
    path.write_text(yaml.safe_dump_all([*found, *others], allow_unicode=True))
    image = options.get("image")
    return _started([str(path), "--folder", str(folder), *(["--image", image] if image else [])])


def _divided(documents: Iterable[Any]) -> tuple[builtins.list[Any], builtins.list[Any]]:
    """Return the documents that are jobs, or are wrong, and the ConfigMaps and Secrets."""
    jobs: builtins.list[Any] = []
    others: builtins.list[Any] = []
    for _, each in numbered(documents):
        is_other = isinstance(each, Mapping) and each.get("kind") in ("ConfigMap", "Secret")
        (others if is_other else jobs).append(each)
    return jobs, others


def _words(options: LocalOptions) -> list[str]:
    """Return the options as words of `di run`."""
    words = [f"--{kind}s={count}" for kind, count in counts_of(options).items()]
    given = {
        "entry": options.get("entry"),
        "name": options.get("name"),
        "with": requirements_of(options),
        "gpus": options.get("gpus") or None,
        "image": options.get("image"),
    }
    return words + [f"--{key}={value}" for key, value in given.items() if value is not None]


def _started(words: list[str]) -> LocalJob:
    """Start a run, and return its job when the API of the run has it."""
    run, process = start_run(words)
    job = LocalJob(run, _first_state(run), process)
    while not job.phase and not job.is_over:
        time.sleep(POLL_SECONDS)
        job.refresh()
    return job


def _first_state(run: Run) -> Object:
    """Return the job of a run without its state, until it is read."""
    found = run.last_job or {"metadata": {"name": run.job, "namespace": run.namespace}}
    return found if run.is_under_way else _as_ended(found)


def _as_ended(manifest: Object) -> Object:
    """Return the job of a run that is over: its pods are gone, whatever its last phase was."""
    status = mapping(manifest.get("status"))
    if status.get("phase") in (Phase.SUCCEEDED, Phase.FAILED):
        return manifest
    return {**manifest, "status": {**status, "phase": _ENDED}}


def _why_ended(name: str, directory: Path) -> Why:
    summary = f"the run of {name} on this machine was ended before the job succeeded or failed"
    remedy = f"submit it again; its logs: {directory}"
    return Why("RunEnded", summary, (), remedy, f"{summary}\n  remedy  {remedy}")
