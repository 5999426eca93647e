"""Runs one job, from its manifest to its end, as processes of this machine."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import time
import uuid
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

from aiohttp import web
from rich.text import Text

from di_api.phase import Phase
from di_api.validation import load_leniently
from di_kube.resources import CONFIGMAPS, DIJOBS, SECRETS
from di_local import runs, watchdog
from di_local.addresses import Names, Network, take_network
from di_local.api.admission import admit
from di_local.api.objects import Object
from di_local.api.paths import bad_data
from di_local.api.refused import Refused
from di_local.control_plane import ControlPlane, StoredSources, control_plane
from di_local.engine import Engine, NoEngine
from di_local.hosts import FILE, Hosts
from di_local.images import Images, read_images
from di_local.log_stream import log_stream
from di_local.logs import Follower, Times
from di_local.manifest import Manifest
from di_local.pods.containers import Containers
from di_local.pods.kubelet import Kubelet
from di_local.pods.life import Place
from di_local.pods.processes import Processes
from di_local.pods.runtime import Runtime
from di_local.refusals import Machine, notices, refusals
from di_local.refusals import images as images_of
from di_local.screen import Screen
from di_local.server import di_server
from di_local.services import Services
from di_local.watching import Watched

_BESIDE: Final = {"ConfigMap": CONFIGMAPS, "Secret": SECRETS}
_KINDS: Final = {"ConfigMap": "configMap", "Secret": "secret"}


class CannotRun(Exception):
    """The job cannot run here; the message has a line for each reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How to run a job.

    Attributes:
        command: for containers without a command and with an unknown image.
        engine: runs containers; None: they are processes.
        image: image of all containers; None: each its own.
        volumes: directories in place of volumes, by name.
        show_logs: writes the output of pods; None: it is not shown.
        has_colours: whether that is for a screen with colors.
        state: directory of all runs.
        on_directory: called with this run's directory before anything is started.
    """

    environ: Mapping[str, str]
    state: Path
    command: Sequence[str] = ()
    engine: Engine | None = None
    image: str | None = None
    volumes: Mapping[str, Path] = field(default_factory=dict)
    show_logs: Callable[[str], object] | None = None
    has_colours: bool = False
    on_directory: Callable[[Path], None] = lambda _: None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of a run.

    Attributes:
        job: the final job, with its status.
        seconds: duration of the run.
        cannot_start: the error for which the program of a pod can never start; empty without one.
    """

    job: Object
    seconds: float
    directory: Path
    cannot_start: str = ""

    @property
    def phase(self) -> str:
        """Return the job's last phase; Failed if its program cannot start."""
        if self.cannot_start:
            return Phase.FAILED
        return str((self.job.get("status") or {}).get("phase") or Phase.PENDING)


class Interrupts:
    """Interrupts such as Ctrl-C: the first one ends the job in order, the next one at once."""

    def __init__(self) -> None:
        self._first = asyncio.Event()
        self._second = asyncio.Event()

    def __call__(self) -> None:
        """Record an interrupt."""
        (self._second if self._first.is_set() else self._first).set()

    @property
    def happened(self) -> bool:
        """Return whether there was one."""
        return self._first.is_set()

    async def first(self) -> None:
        """Wait for the first."""
        await self._first.wait()

    async def second(self) -> None:
        """Wait for the second."""
        await self._second.wait()


async def run(
    manifest: Manifest, options: Options, *, say: Callable[[Text], None], interrupts: Interrupts
) -> Outcome:
    """Run a job to its end. When this returns, no process of it runs any more.

    Raises:
        CannotRun: it breaks rules, or needs something that is missing here; nothing was started.
        NoAddress: this machine has no addresses for pods.
        OSError: the run's directory cannot be created.
    """
    images = read_images(manifest.directory, options.command)
    job = checked(manifest, options, images, say)
    variables = variables_of_images(job, options, say)
    began = time.monotonic()
    screen = Screen(elapsed=lambda: time.monotonic() - began)
    make_runtime = partial(runtime_of, manifest, options, images, variables)
    async with started(manifest, options, make_runtime) as here:
        watched = Watched(
            job,
            here.kubelet,
            screen,
            say,
            show_logs=options.show_logs,
            has_colours=options.has_colours,
        )
        plane = here.plane
        plane.objects.subscribe(watched.on_change)
        create_beside(plane, manifest)
        follower = Follower(here.pods, here.times, watched.on_lines)
        following = asyncio.create_task(follower.run())
        plane.objects.create(DIJOBS, manifest.job)
        await first_of(watched.ended.wait(), interrupts.first(), end_of(plane))
        is_given_up = interrupts.happened or bool(watched.cannot_start)
        await _end(here.kubelet, plane, job, interrupts, is_given_up=is_given_up)
        following.cancel()
        follower.look()
        outcome = Outcome(
            job=watched.job,
            seconds=time.monotonic() - began,
            directory=here.directory,
            cannot_start=watched.cannot_start,
        )
        runs.keep(here.directory, watched.last_job(outcome.phase, datetime.now(UTC)))
    if outcome.phase == Phase.FAILED and options.show_logs is None:
        watched.explain()
    return outcome


def create_beside(plane: ControlPlane, manifest: Manifest) -> None:
    """Create the ConfigMaps and Secrets of a manifest."""
    for other in manifest.beside:
        plane.objects.create(_BESIDE[other["kind"]], dict(other))


def checked(
    manifest: Manifest, options: Options, images: Images, say: Callable[[Text], None]
) -> Object:
    """Return the job with its defaults, after a check that it can run here."""
    metadata = {**manifest.job["metadata"], "uid": str(uuid.uuid4())}
    try:
        job = admit({**manifest.job, "metadata": metadata}, None)
    except Refused as refused:
        causes = [each["message"] for each in refused.details.get("causes") or ()]
        fields = [each["field"] for each in refused.details.get("causes") or ()]
        lines = [f"{where}: {why}" for where, why in zip(fields, causes, strict=True)]
        raise CannotRun("\n".join(lines) or refused.message) from refused
    spec = load_leniently(job["spec"])
    from_image = options.engine is not None and options.image is None
    machine = Machine(
        entrypoint=(lambda _: None) if from_image else images.entrypoint,
        is_command=lambda word: (
            options.engine is not None or _is_command(word, manifest.directory, options.environ)
        ),
        is_directory=lambda path: Path(path).is_dir(),
        given=options.volumes,
        there={(_KINDS[each["kind"]], each["metadata"]["name"]) for each in manifest.beside},
        in_containers=options.engine is not None,
    )
    found = refusals(spec, machine)
    for other in manifest.beside:
        what = f"{other['kind']} {other['metadata']['name']}"
        found += [f"{what}: {why}" for why in bad_data(other["kind"], other)]
    if found:
        raise CannotRun("\n".join(found))
    for notice in notices(spec):
        say(Text(notice, "dim"))
    return job


def variables_of_images(
    job: Object, options: Options, say: Callable[[Text], None]
) -> Mapping[str, Mapping[str, str]]:
    """Return the variables of the needed images; empty for processes."""
    if options.engine is None:
        return {}
    needed = [options.image] if options.image else images_of(load_leniently(job["spec"]))
    try:
        return {
            image: options.engine.image_environment(image, lambda text: say(Text(text, "dim")))
            for image in needed
        }
    except NoEngine as error:
        raise CannotRun(str(error)) from error


def runtime_of(
    manifest: Manifest,
    options: Options,
    images: Images,
    variables: Mapping[str, Mapping[str, str]],
    hosts: Path,
) -> Runtime:
    """Return what runs containers, which reads the names of pods from the file `hosts`."""
    if options.engine is None:
        directory = manifest.directory
        return Processes(environ=options.environ, directory=directory, images=images)
    return Containers(
        options.engine,
        directory=manifest.directory if options.image is not None else None,
        image=options.image,
        images=images,
        variables=variables,
        hosts=hosts,
    )


def _is_command(word: str, directory: Path, environ: Mapping[str, str]) -> bool:
    path = directory / word if "/" in word else Path(word)
    return shutil.which(str(path), path=environ.get("PATH")) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """The parts that run the jobs of a run, and the directory of the run."""

    plane: ControlPlane
    kubelet: Kubelet
    network: Network
    directory: Path
    times: Times

    @property
    def pods(self) -> Path:
        """Return the directory of the logs."""
        return self.directory / "pods"


@asynccontextmanager
async def started(
    manifest: Manifest,
    options: Options,
    make_runtime: Callable[[Path], Runtime],
    *,
    is_sweep: bool = False,
) -> AsyncIterator[Started]:
    """Start everything that a job needs, or the trials of a sweep; at the end only the logs are
    left.
    """
    metadata = manifest.job["metadata"]
    network = take_network(random.Random())
    began = datetime.now().astimezone()
    directory = runs.new_directory(options.state, metadata["name"], began)
    options.on_directory(directory)
    mark = directory.name
    engine = options.engine.command if options.engine is not None else ()
    guard = await asyncio.to_thread(watchdog.start, mark, directory / runs.KUBECONFIG, engine)
    names = Names(network, namespace=metadata["namespace"], job=metadata["name"], is_sweep=is_sweep)
    times = Times(now=lambda: datetime.now(UTC))
    kubelet: Kubelet | None = None

    async def logs(request: web.Request, pod: Object) -> web.StreamResponse:
        container = request.query.get("container", "")
        path = kubelet.log(pod, container) if kubelet is not None else None
        if kubelet is None or path is None:
            raise Refused(400, "BadRequest", f"there is no container {container} that runs here")
        is_over = partial(kubelet.is_over, pod)
        return await log_stream(request, path, times=times, is_over=is_over)

    try:
        async with (
            control_plane(network, logs=logs) as plane,
            di_server(network, plane.kube),
        ):
            place = Place(
                runtime=make_runtime(directory / FILE),
                runs=directory / "pods",
                hosts=directory / FILE,
                given=options.volumes,
                mark=mark,
                replaced=names.replaced,
                sources=StoredSources(plane.objects, plane.tokens),
            )
            Hosts(plane.objects, network, place.hosts)
            kubelet = Kubelet(plane.objects, place, address=network.address)
            services = Services(plane.objects, network)
            noted = runs.note(
                directory,
                manifest.job,
                url=plane.kube.server,
                token=plane.tokens.owner,
                began=began,
                is_sweep=is_sweep,
            )
            try:
                yield Started(
                    plane=plane,
                    kubelet=kubelet,
                    network=network,
                    directory=directory,
                    times=times,
                )
            finally:
                await kubelet.end(at_once=True)
                await services.end()
                runs.close(noted)
    finally:
        network.listener.close()
        await asyncio.to_thread(_dismiss, guard, mark, engine)
        runs.prune(options.state)


def _dismiss(guard: Any, mark: str, engine: Sequence[str]) -> None:
    """End the processes that have left their group, as the watchdog would, and then the
    watchdog.
    """
    watchdog.sweep(mark)
    if engine:
        watchdog.remove(mark, engine)
    guard.stdin.close()
    guard.wait()


async def _end(
    kubelet: Kubelet,
    plane: ControlPlane,
    job: Object,
    interrupts: Interrupts,
    *,
    is_given_up: bool,
) -> None:
    """End all pods in their grace period, or at once after another interrupt."""
    if is_given_up:
        # Otherwise the operator would create them again.
        metadata = job["metadata"]
        with suppress(Refused):
            plane.objects.delete(DIJOBS, metadata["namespace"], metadata["name"])
        await first_of(
            kubelet.end(), interrupts.second() if interrupts.happened else interrupts.first()
        )
    else:
        await first_of(kubelet.end(), interrupts.first())


async def end_of(plane: ControlPlane) -> None:
    """Return when the operator ends, or raise its error."""
    await asyncio.shield(plane.failed)


async def first_of(*waits: Any) -> None:
    """Return when the first of them returns; raises its error."""
    tasks = [asyncio.ensure_future(each) for each in waits]
    done, others = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    for task in done:
        task.result()


def state_directory() -> Path:
    """Return the directory of all runs on this machine."""
    return runs.state_directory(os.environ)
