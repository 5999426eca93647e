"""What this process is, by its environment: the functions of the package."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any

from di_orchestrator.job import PORT, Job, World
from di_orchestrator.pods.hub import Answering
from di_orchestrator.rollouts.engine import Rollout
from di_orchestrator.server.api import Api, Member, Peer
from di_orchestrator.server.board import Entry
from di_orchestrator.server.client import Client, Send, run
from di_orchestrator.server.connect import connection
from di_orchestrator.server.coordinator import Coordinator
from di_orchestrator.termination import Leaving
from di_orchestrator.training_run import training as training_run
from di_orchestrator.training_run.checkpoint import Checkpoints
from di_orchestrator.training_run.rescaling import Rescaling
from di_orchestrator.training_run.sender import Sender

REPORT_SECONDS = 15.0
"""How long one report is tried; then the next one says more."""
COLLECTOR = "collector"


def job() -> Job:
    """Who this pod is; outside a job one without others.

    Raises:
        BadEnvironment: the pod's variables are not those of the operator.
    """
    return Job.of(os.environ)


def client() -> Client | None:
    """The job at di-server; None outside a job, where one line on stderr says so, once.

    Raises:
        BadEnvironment: the pod's variables are not those of the operator.
    """
    found = connection(job())
    return None if found is None else Client(*found)


def coordinator(*, seconds: float = 60.0) -> Coordinator:
    """The coordinator of a job that has one (DI-engine's v1).

    Args:
        seconds: how long a request is tried until it is `Unreachable`.

    Raises:
        NotInJob: this is not its pod.
    """
    return Coordinator.of(os.environ, seconds=seconds)


def replicas() -> dict[str, int]:
    """See `Client.replicas`; none outside a job."""
    found = client()
    return {} if found is None else found.replicas()


def peers(task: str) -> tuple[Peer, ...]:
    """See `Client.peers`; none outside a job."""
    found = client()
    return () if found is None else found.peers(task)


def watch_peers(task: str) -> Iterator[tuple[Peer, ...]]:
    """See `Client.watch_peers`; outside a job there are none, once."""
    found = client()
    return iter(((),)) if found is None else found.watch_peers(task)


def watch_worlds(task: str | None = None) -> Iterator[World]:
    """See `Client.watch_worlds`, of this pod's task if none is given; none outside a job."""
    found = client()
    return iter(()) if found is None else found.watch_worlds(task or job().task)


def members(task: str | None = None) -> tuple[Member, ...]:
    """See `Client.members`; none outside a job."""
    found = client()
    return () if found is None else found.members(task)


def watch_members(task: str | None = None) -> Iterator[tuple[Member, ...]]:
    """See `Client.watch_members`; outside a job there are none, once."""
    found = client()
    return iter(((),)) if found is None else found.watch_members(task)


def say(url: str, **more: Any) -> None:
    """Put this on the board of the job as the entry of this pod, and repeat it from a thread.

    Say it again when it has changed; it never waits. The entry goes with the pod.

    Args:
        url: where this pod serves.
        more: what else the others are to know, 1 KiB with the url.
    """
    _pod.say({"url": url, **more})


def rollout(
    port: int = PORT,
    path: str = "/drain",
    *,
    url: str | None = None,
    answer: Answering | None = None,
) -> Rollout:
    """An engine that says on the board which weights it has, answers `/ready`, and drains.

    Args:
        port, path: of the task's `drain`.
        url: where it is asked for samples; by default this port of the pod.
        answer: of whatever else is asked there.
    """
    return Rollout(port, path, url=url or f"http://{job().address}:{port}", say=say, answer=answer)


def scale(
    task: str | None = COLLECTOR, change: int | None = None, *, to: int | None = None
) -> int | None:
    """See `Client.scale`; None outside a job."""
    found = client()
    if found is None:
        return None
    replicas = found.scale(task, change, to=to)
    current = _pod.training
    if current is not None and task in (None, current.samples_from):
        current.now_collects(replicas)
    return replicas


def remove(*names: str) -> int | None:
    """See `Client.remove`; None outside a job."""
    found = client()
    return None if found is None else found.remove(*names)


def leaving() -> threading.Event:
    """Set when this pod is to leave: SIGTERM has come, for whatever reason.

    To be called first in the main thread, which alone may listen. A handler that was there before
    is called too. `Training.leaving` is the same of a training.
    """
    return _pod.leaving()


def advise(*, least: int = 1, most: int | None = None) -> int | None:
    """See `Training.advise`, of the training that is entered; None without one."""
    current = _pod.training
    return None if current is None else current.advise(least=least, most=most)


def training(
    *,
    total_steps: float | None = None,
    max_env_steps: float | None = None,
    learners: int | None = None,
    nodes: int | None = None,
    save_every: float | None = None,
    checkpoint: str = "checkpoint",
    observations: list[dict[str, Any]] | None = None,
    samples_from: str = COLLECTOR,
    reports: bool | None = None,
    **known: object,
) -> Training:
    """A training, to be entered: times it, reports it, knows when to stop and what to go on from.

    Args:
        total_steps, max_env_steps: where `step` and `env_steps` are to end.
        learners: how many there are; by default those of this pod's task.
        nodes: on how many nodes they run; by default 1 of one learner, else not known.
        save_every: seconds from one checkpoint to the next, for `run.checkpoint.is_due`.
        checkpoint: name of this program's checkpoints in the job's directory.
        observations: `run.observations` of the checkpoint that it goes on from.
        samples_from: name of the task whose replicas are advised on and scaled.
        reports: whether this process reports, and has collectors scaled by `rescale`; by default
            the first pod of the task does.
        known: further keys of the report, in snake case, such as `init_batch_size`.

    Raises:
        BadEnvironment: the pod's variables are not those of the operator.
        BadReport: what is known makes no sense.
    """
    here = job()
    sender = rescaling = None
    found = connection(here)
    if found is not None and (here.is_leader if reports is None else reports):
        client = Client(*found)
        sender = Sender(_reporting(*found))
        rescaling = Rescaling(
            lambda count: client.scale(samples_from, to=count),
            lambda: client.replicas().get(samples_from),
        )
    limits = {"total_steps": total_steps, "max_env_steps": max_env_steps}
    return Training(
        here,
        sender,
        Checkpoints.of(os.environ, every_seconds=save_every, name=checkpoint),
        known={**{key: value for key, value in limits.items() if value is not None}, **known},
        learners=learners,
        nodes=nodes,
        observations=observations,
        samples_from=samples_from,
        rescaling=rescaling,
        is_test=os.environ.get("DI_TEST") == "1",
    )


class Training(training_run.Training):
    """One that `advise` and `scale` know of while it is entered."""

    def __enter__(self) -> Training:
        super().__enter__()
        _pod.training = self
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if _pod.training is self:
            _pod.training = None
        super().__exit__(kind, error, trace)


def _reporting(api: Api, send: Send) -> Any:
    def report(said: Mapping[str, Any]) -> int | None:
        return run(api.report(said, REPORT_SECONDS), send)

    return report


class _CurrentPod:
    """What the functions of this module remember in this process."""

    def __init__(self) -> None:
        self.training: Training | None = None
        self._lock = threading.Lock()
        self._entry: Entry | None = None
        self._leaving: Leaving | None = None

    def leaving(self) -> threading.Event:
        with self._lock:
            if self._leaving is None:
                self._leaving = Leaving(lambda: None)
                self._leaving.listen()
            return self._leaving.event

    def say(self, said: Mapping[str, Any]) -> None:
        with self._lock:
            if self._entry is None:
                found = connection(job())
                if found is None:
                    return
                api, send = found
                self._entry = Entry(lambda said: run(api.say(said), send))
        self._entry.put(said)

    def close(self) -> None:
        """Say nothing any more, and leave SIGTERM to whoever had it before."""
        with self._lock:
            if self._entry is not None:
                self._entry.close()
            if self._leaving is not None:
                self._leaving.restore()


_pod = _CurrentPod()
