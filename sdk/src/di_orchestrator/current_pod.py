"""The package's functions for the present pod, which read its environment."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any

from di_orchestrator.followed_group import FollowedGroup
from di_orchestrator.job import PORT, Job, World
from di_orchestrator.pods.messages import Answering
from di_orchestrator.rollouts.engine import Rollout
from di_orchestrator.server.api import Advice, Api, Member, Peer
from di_orchestrator.server.board import Entry
from di_orchestrator.server.client import Client, Send, run
from di_orchestrator.server.connect import connection
from di_orchestrator.server.coordinator import Coordinator
from di_orchestrator.termination import Leaving
from di_orchestrator.training_run import training as training_run
from di_orchestrator.training_run.checkpoint import Checkpoints
from di_orchestrator.training_run.gpus import IdleGpus
from di_orchestrator.training_run.heartbeats import MOST_PODS, USUAL_SECONDS, Heartbeats
from di_orchestrator.training_run.report import misspelt
from di_orchestrator.training_run.rescaling import Rescaling
from di_orchestrator.training_run.sender import Sender, interval_of

REPORT_SECONDS = 15.0
"""Seconds for which one report is retried; the next one contains more."""
COLLECTOR = "collector"
_ARGUMENTS = (
    *("total_steps", "max_env_steps", "learners", "nodes", "save_every", "checkpoint"),
    *("observations", "samples_from", "reports", "heartbeat", "tracking"),
)
"""Names of the arguments of `training`."""


def job() -> Job:
    """Return this pod's place in its job; outside a job that of a single pod.

    Raises:
        BadEnvironment: the pod's variables are not those of the operator.
    """
    return Job.of(os.environ)


def client() -> Client | None:
    """Return the client for the job at di-server; None outside a job, with one line on stderr,
    once.

    Raises:
        BadEnvironment: the pod's variables are not those of the operator.
    """
    found = connection(job())
    return None if found is None else Client(*found)


def coordinator(*, seconds: float = 60.0) -> Coordinator:
    """Return the client of a job's coordinator (DI-engine's v1).

    Args:
        seconds: how long a request is retried before `Unreachable`.

    Raises:
        NotInJob: this is not a coordinator's pod.
    """
    return Coordinator.of(os.environ, seconds=seconds)


def replicas() -> dict[str, int]:
    """See `Client.replicas`; empty outside a job."""
    found = client()
    return {} if found is None else found.replicas()


def peers(task: str) -> tuple[Peer, ...]:
    """See `Client.peers`; empty outside a job."""
    found = client()
    return () if found is None else found.peers(task)


def watch_peers(task: str) -> Iterator[tuple[Peer, ...]]:
    """See `Client.watch_peers`; outside a job it yields one empty tuple."""
    found = client()
    return iter(((),)) if found is None else found.watch_peers(task)


def watch_worlds(task: str | None = None) -> Iterator[World]:
    """See `Client.watch_worlds`; the default is this pod's task; empty outside a job."""
    found = client()
    return iter(()) if found is None else found.watch_worlds(task or job().task)


def group_changed(task: str | None = None) -> bool:
    """Return whether the process group of a task has another world than its first one; never waits.

    The first call begins to follow the group from a thread, so call it when the program starts.
    Members that are still joining are no change. The default is this pod's task; False outside a
    job.
    """
    return _pod.has_changed(task or job().task)


def members(task: str | None = None) -> tuple[Member, ...]:
    """See `Client.members`; empty outside a job."""
    found = client()
    return () if found is None else found.members(task)


def watch_members(task: str | None = None) -> Iterator[tuple[Member, ...]]:
    """See `Client.watch_members`; outside a job it yields one empty tuple."""
    found = client()
    return iter(((),)) if found is None else found.watch_members(task)


def say(url: str, **more: Any) -> None:
    """Publish this pod's entry on the board of its job, and repeat it from a thread.

    Call it again after a change; it never waits. The entry is removed with the pod.

    Args:
        url: address that this pod serves.
        more: further data for other pods, 1 KiB together with the url.
    """
    _pod.say({"url": url, **more})


def rollout(
    port: int = PORT,
    path: str = "/drain",
    *,
    url: str | None = None,
    answer: Answering | None = None,
) -> Rollout:
    """Return an engine that publishes its weight version on the board, answers `/ready`, and
    drains.

    Args:
        port, path: of the task's `drain`.
        url: address for sample requests; by default this port of the pod.
        answer: handles all other requests.
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
    """Return an event that is set when this pod gets SIGTERM, for whatever reason.

    Call it first in the main thread, because only that thread can handle signals. A previous
    handler is called too. `Training.leaving` is the same for a training.
    """
    return _pod.leaving()


def heartbeat(*, within: float = USUAL_SECONDS) -> None:
    """Report to di-server that this pod's loop goes on; call it in each round of the loop.

    It never waits: a thread sends a heartbeat three times in `within`, or less often. A pod that
    has sent one and sends no more is reported as silent. A `training` does it by itself.

    Args:
        within: seconds within which the next call comes, or three times the longest time between
            two calls so far if that is more. The first call decides.
    """
    found = _pod.heartbeats(within)
    if found is not None:
        found.beat()


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
    heartbeat: float | None = None,
    tracking: str | None = None,
    **known: object,
) -> Training:
    """Return a training, to be entered: it measures and reports, and finds checkpoints and the time
    to stop.

    Args:
        total_steps, max_env_steps: final values of `step` and `env_steps`.
        learners: number of learners; by default those of this pod's task.
        nodes: number of their nodes; by default that of the allocator for a preemptible job.
        save_every: seconds between two checkpoints, for `run.checkpoint.is_due`.
        checkpoint: name of this program's checkpoints in the job's directory.
        observations: `run.observations` of the restored checkpoint.
        samples_from: name of the task whose replicas are advised on and scaled.
        reports: whether this process reports, and `rescale` scales collectors; by default only the
            first process of the group, or the first pod of the task.
        heartbeat: seconds within which the loop goes on (an iteration, a report, `run.stopping`),
            or three times the longest time so far if that is more; a pod that does not is
            reported as silent. None: this pod sends no heartbeats, which cost writes.
        tracking: page of the run in an experiment tracker, an http or https URL; `di list -o wide`,
            `di get` and the dashboard link to it.
        known: further keys of the report, in snake case, such as `init_batch_size`.

    Raises:
        TypeError: a key in `known` is a misspelt argument or key.
        BadEnvironment: the pod's variables are not those of the operator.
        BadReport: a value in `known` is invalid.
    """
    for name in known:
        if (meant := misspelt(name, _ARGUMENTS)) is not None:
            raise TypeError(f"training() has no argument {name!r}; did you mean {meant!r}?")
    here = job()
    sender = rescaling = None
    found = connection(here)
    if found is not None and (here.is_first_process if reports is None else reports):
        client = Client(*found)
        sender = Sender(_reporting(*found, task=here.task), interval=interval_of(os.environ))
        rescaling = Rescaling(
            lambda count: client.scale(samples_from, to=count),
            lambda: client.replicas().get(samples_from),
        )
    stated = {"total_steps": total_steps, "max_env_steps": max_env_steps, "tracking_url": tracking}
    return Training(
        here,
        sender,
        Checkpoints.of(
            os.environ,
            every_seconds=save_every,
            name=checkpoint,
            copies=here.is_first_process,
        ),
        known={**{key: value for key, value in stated.items() if value is not None}, **known},
        learners=learners,
        nodes=nodes,
        observations=observations,
        samples_from=samples_from,
        rescaling=rescaling,
        heartbeats=None if heartbeat is None else _pod.heartbeats(heartbeat),
        gpus=None if sender is None else IdleGpus.of_this_pod(),
        is_test=os.environ.get("DI_TEST") == "1",
    )


def sender() -> Sender | None:
    """Return a sender of reports for code without a training; None where a training would not
    report.
    """
    here = job()
    found = connection(here)
    if found is None or not here.is_first_process:
        return None
    return Sender(_reporting(*found, task=here.task), interval=interval_of(os.environ))


def is_training() -> bool:
    """Return whether a training is entered, which reports its own step."""
    return _pod.training is not None


class Training(training_run.Training):
    """A training that `advise` and `scale` use while it is entered."""

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


def _reporting(api: Api, send: Send, *, task: str) -> Any:
    def report(said: Mapping[str, Any]) -> Advice:
        return run(api.report_training(said, task, REPORT_SECONDS), send)

    return report


class _CurrentPod:
    """State that the functions of this module keep in this process."""

    def __init__(self) -> None:
        self.training: Training | None = None
        self._lock = threading.Lock()
        self._entry: Entry | None = None
        self._heartbeats: Heartbeats | None = None
        self._groups: dict[str, FollowedGroup] = {}
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

    def has_changed(self, task: str) -> bool:
        with self._lock:
            if task not in self._groups:
                found = client()
                if found is None:
                    return False
                self._groups[task] = FollowedGroup(lambda: found.watch_worlds(task))
            return self._groups[task].has_changed

    def heartbeats(self, within: float) -> Heartbeats | None:
        """Return the heartbeats of this pod; None outside a job, and for processes that send none:
        a pod's first process does, in the first pods of the job.
        """
        here = job()
        if here.rank >= MOST_PODS or not here.is_first_in_pod:
            return None
        with self._lock:
            if self._heartbeats is None or self._heartbeats.is_closed:
                found = connection(here)
                if found is None:
                    return None
                api, send = found
                report = _reporting(api, send, task=here.task)

                def beat(limit: int) -> None:
                    report({"heartbeat": {"pod": here.pod, "withinSeconds": limit}})

                self._heartbeats = Heartbeats(beat, within=within)
            return self._heartbeats

    def close(self) -> None:
        """Stop repeating the entry, and restore the previous handler of SIGTERM."""
        with self._lock:
            if self._entry is not None:
                self._entry.close()
            if self._heartbeats is not None:
                self._heartbeats.close()
            for group in self._groups.values():
                group.close()
            if self._leaving is not None:
                self._leaving.restore()


_pod = _CurrentPod()
