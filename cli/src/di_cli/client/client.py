"""Jobs of a cluster, for Python programs and notebooks."""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self, TypeVar, Unpack

from typing_extensions import override

from di_cli.actions.job_templates import template
from di_cli.actions.manifest import documents_of
from di_cli.actions.program import Program, is_program, prepared
from di_cli.actions.submit import kept_in
from di_cli.actions.submit import submit as create
from di_cli.client.comparison import ComparedJobs, compare
from di_cli.client.errors import BadCall
from di_cli.client.job import Job, job_table
from di_cli.client.options import (
    ClusterOptions,
    changes_of,
    check_manifest,
    counts_of,
    requirements_of,
    takes,
)
from di_cli.client.place import Place
from di_cli.client.studies import optimize
from di_cli.client.submission import What, not_submitted, words_of, written
from di_cli.client.sweeps import Sweep, created, found
from di_cli.code.start import start
from di_cli.code.submission import Stored
from di_cli.edits.job_templates import with_template
from di_cli.edits.manifests import ManifestError, changed
from di_cli.session import Session

Object = dict[str, Any]
J = TypeVar("J", bound=Job)


class Jobs(builtins.list[J]):
    """A list of jobs; a notebook shows it as a table."""

    @override
    def __repr__(self) -> str:
        return f"[{', '.join(map(repr, self))}]"

    def _repr_html_(self) -> str:
        return job_table(self, namespace=len({each.namespace for each in self}) > 1)


class Client:
    """The jobs of a namespace. All calls block; one object serves all threads.

    Args:
        namespace: None: that of the context.
        context: of the kubeconfig; None: the current one, or the service account of this pod.
    """

    def __init__(self, namespace: str | None = None, context: str | None = None) -> None:
        self._place = Place(namespace, context)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._place.close()

    @takes(ClusterOptions)
    def submit(self, program: What, **options: Unpack[ClusterOptions]) -> Job:
        """Submit a job; return it.

        Args:
            program: a program or folder, a function, a manifest's file or the manifest, or the name
                of an example.
            args: of the program: a dict of options, a list of words, or a text. A function gets the
                dict as its keyword arguments.
            name: of the job; absent: that of the program, or the manifest's own.
            image: of all tasks, or of each by name.
            entry: file of a folder that is started.
            requirements: file for pip.
            learners: number of learners.
            collectors: number of collectors.
            evaluators: number of evaluators.
            gpus: of each learner.
            replicas: of tasks by name, for a manifest.
            template: name of the DIJobTemplate with the job's defaults.
            artifacts: claim with a folder for each pod of a program, and perhaps `:PATH`.
            store: claim for code that ConfigMaps cannot hold; absent: that of the namespace.
        """
        if isinstance(program, Mapping):
            return self._create([dict(program)], "the manifest", options)
        if callable(program):
            with TemporaryDirectory() as folder:
                path = written(program, options.get("args", ()), Path(folder))
                return self._start(path, [], options)
        if is_program([str(program)], options.get("entry")):
            return self._start(Path(program), words_of(options.get("args", ())), options)
        with self._place.session():
            try:
                documents = documents_of(str(program))
            except ManifestError as error:
                raise not_submitted(error) from error
        return self._create(documents, str(program), options)

    def get(self, name: str) -> Job:
        """Return a job. Raises NotFound."""
        with self._place.session(name) as session:
            return Job(self._place, session.job(name))

    def list(self, *, all_namespaces: bool = False, selector: str | None = None) -> Jobs[Job]:
        """Return the jobs of the namespace, or of all, by name.

        Args:
            selector: of labels, such as `team=rl`.
        """
        with self._place.session() as session:
            jobs = session.jobs(all_namespaces=all_namespaces, selector=selector)
        keyed = sorted(jobs, key=lambda job: (_namespace(job), str(job["metadata"]["name"])))
        return Jobs(Job(self._place.of(_namespace(job)), job) for job in keyed)

    def compare(
        self,
        *names: str,
        metric: str = "return",
        by: str = "step",
        lowest: bool = False,
        history: str | None = None,
    ) -> ComparedJobs:
        """Return a comparison of jobs of the namespace, as `di compare` does.

        Args:
            names: of 2 to 20 jobs.
            metric: number of their reports, in any spelling.
            by: `step` or `time`, which is since the first report.
            lowest: whether the lowest value is the best one.
            history: URL of di-history; absent: $DI_HISTORY_URL, else each job has its last report
                alone.
        """
        with self._place.session() as session:
            return compare(session, names, metric=metric, by=by, lowest=lowest, history=history)

    def sweep(
        self, what: str | Path | Mapping[str, Any], *, parallelism: int | None = None
    ) -> Sweep:
        """Create a sweep; return it.

        Args:
            what: file of a manifest, or the manifest.
            parallelism: trials at the same time, in place of the manifest's number.
        """
        return created(self._place, what, parallelism)

    def optimize(
        self,
        study: Any,
        what: str | Path | Mapping[str, Any],
        *,
        parallelism: int | None = None,
    ) -> None:
        """Run the trials of a sweep with the parameters that an Optuna study asks for, until all
        have ended. This process has to run meanwhile; an interrupt suspends the trials.

        Args:
            study: of Optuna.
            what: file of a sweep's manifest, or the manifest.
            parallelism: trials at the same time, in place of the manifest's number.
        """
        optimize(
            study, what, parallelism=parallelism, submit=self.submit, end=lambda job: job.suspend()
        )

    def get_sweep(self, name: str) -> Sweep:
        """Return a sweep. Raises NotFound."""
        return found(self._place, name)

    def _start(self, path: Path, words: builtins.list[str], options: ClusterOptions) -> Job:
        with self._place.session() as session:
            program = prepared(
                Program(
                    path=path,
                    arguments=words,
                    entry=options.get("entry"),
                    requirements=requirements_of(options),
                    counts=counts_of(options),
                    gpus=options.get("gpus", 0),
                    name=options.get("name"),
                    template=_template(session, options),
                    artifacts=options.get("artifacts"),
                )
            )
            changes = changes_of(options)
            try:
                changed(program.job(Stored()), changes)
            except ManifestError as error:
                raise not_submitted(error) from error
            made = start(
                session,
                lambda stored: changed(program.job(stored), changes),
                program.bundle,
                program.source,
                options.get("store"),
            )
        return Job(self._place, made)

    def _create(self, documents: builtins.list[Any], source: str, options: ClusterOptions) -> Job:
        check_manifest(options)
        if options.get("artifacts"):
            raise BadCall(
                "artifacts is for a program, folder or function",
                remedy="spec.artifacts in the manifest: docs/how-to/artifacts.md",
            )
        if options.get("store"):
            raise BadCall("store is for a program, folder or function")
        try:
            jobs = kept_in(documents, source)
        except ManifestError as error:
            raise not_submitted(error) from error
        if len(jobs) != 1:
            raise BadCall(f"{source} has {len(jobs)} DIJobs, and submit() takes one")
        with self._place.session() as session:
            found = _template(session, options)
            kept = jobs[0]
            if found is not None:
                kept = kept.changed(lambda job: with_template(job, found))
            try:
                kept = kept.changed(lambda job: changed(job, changes_of(options)))
            except ManifestError as error:
                raise not_submitted(error) from error
            made = create(session, kept)
        return Job(self._place.of(_namespace(made)), made)


def _template(session: Session, options: ClusterOptions) -> Object | None:
    name = options.get("template")
    return None if name is None else template(session, name)


def _namespace(job: Mapping[str, Any]) -> str:
    return str(job["metadata"].get("namespace") or "default")
