"""The cluster around the operator: a job, the kubelets of its pods, and what happens to them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count
from random import Random

from di_api.names import API_VERSION, KIND, PREBUILT_WORKLOAD, SWEEP_KIND
from di_api.ownership import sweep_uid
from di_api.phase import has_finished
from di_api.queued import is_suspended_by_queue
from di_api.timestamps import format_time
from di_kube.resources import DIJOBS, PODS
from di_operator.cluster.unlabelled_pods import is_labelled
from di_operator.lifecycle.vocabulary.decision import JobEvent
from tests.unit.operator.fake_api import Object
from tests.unit.operator.histories.api import NAMESPACE, RESOURCES, WatchedApi, copied
from tests.unit.operator.histories.garbage import collect_garbage
from tests.unit.operator.histories.multikueue import CONTROLLER, dispatch_some, send_workload
from tests.unit.operator.histories.node_scheduler import NodeScheduler
from tests.unit.operator.histories.nodes import (
    Allocation,
    add_nodes,
    delete_homeless,
    is_full,
    is_of_others,
)
from tests.unit.operator.histories.operator import CONFIG, Operator
from tests.unit.operator.histories.queue import OF_QUEUE, UNLIMITED, admit_some, create_flavor
from tests.unit.operator.histories.schedulers import (
    COMPANION_KINDS,
    delete_failed_requests,
    provision_some,
)
from tests.unit.operator.virtual_time import VirtualClock

JOB = "a"
UNREADABLE = "many"
"""A backoffLimit that makes the spec unreadable."""
READY = {"type": "Ready", "status": "True"}


class World:
    """Some jobs in a cluster, in virtual time: all is decided by the seed.

    Attributes:
        random: decides what happens.
        trace: what happened, with its time.
        names: the names of the jobs.
        turn: the name of the job that a step concerns.
        is_queued: the jobs have a queue of Kueue.
        is_scalable: DIJobTasks are kept.
        allocation: how the allocator places the jobs; None: there is no allocator.
        scheduler: binds pods to nodes, if there is an allocator.
        is_ending: programs of pods end well by themselves.
        is_contested: two processes of the operator believe that they lead.
        invisible: the UIDs of pods that had lost the operator's label when a process of it started.
    """

    def __init__(
        self,
        seed: int,
        spec: Callable[[Random], Object],
        *,
        is_scalable: bool = False,
        is_sweeping: bool = False,
        is_queued: bool = False,
        is_sent: bool = False,
        allocation: Allocation | None = None,
        names: Sequence[str] = (JOB,),
        pods_in_queue: int = UNLIMITED,
    ) -> None:
        """Prepare a cluster without a job.

        Args:
            seed: decides everything.
            spec: returns the spec of another job.
            is_sent: MultiKueue creates the jobs for another cluster.
            pods_in_queue: the quota of the queue.
        """
        self._spec = spec
        self.names = names
        self.turn = names[0]
        self._is_sweeping = is_sweeping
        self._is_sent = is_sent
        self._sent = count()
        self._pods_in_queue = pods_in_queue
        self.is_queued = is_queued
        self.is_scalable = is_scalable
        self.allocation = allocation
        self._config = replace(
            CONFIG,
            kueue=is_queued,
            job_tasks=is_scalable,
            sweeps=is_sweeping,
            companion_kinds=COMPANION_KINDS,
        )
        if allocation is not None:
            self._config = replace(
                self._config, policy=allocation.policy, binding=allocation.binding
            )
        self.random = Random(seed)
        self.clock = VirtualClock()
        self.api = WatchedApi(self.clock, Random(f"{seed} watches"))
        self.api.lag = self.random.choice([0.001, 0.05, 0.5])
        self.trace: list[tuple[float, str]] = []
        self.events: list[JobEvent] = []
        self.is_ending = self.is_contested = False
        self.invisible: set[str] = set()
        self._of_operator = Random(f"{seed} operator")
        self._of_kubelets = Random(f"{seed} kubelets")
        self._of_kueue = Random(f"{seed} Kueue")
        self._of_autoscaler = Random(f"{seed} autoscaler")
        self._of_garbage = Random(f"{seed} garbage collector")
        if is_queued:
            create_flavor(self.api)
        if allocation is not None:
            add_nodes(self.api)
        self._of_scheduler = Random(f"{seed} scheduler")
        self.scheduler = NodeScheduler(self.api, self._of_scheduler)
        self.operator = self._new_operator()
        self._former: list[Operator] = []

    @property
    def job(self) -> Object | None:
        """A copy of the job whose turn it is, as it is in the API server."""
        job = self.api.stored(KIND).get(self.turn)
        return None if job is None else copied(job)

    @property
    def is_unfinished(self) -> bool:
        """Whether there is a job that has not ended."""
        return not all(map(has_finished, self.api.stored(KIND).values()))

    @property
    def pods(self) -> dict[str, Object]:
        """The pods by name, which must not be modified."""
        return self.api.stored("Pod")

    def pods_in(self, phase: str) -> list[str]:
        """The names of the pods in a phase."""
        return [name for name, pod in self.pods.items() if pod["status"]["phase"] == phase]

    def note(self, text: str) -> None:
        """Add a line to the trace."""
        self.trace.append((self.clock.monotonic(), text))

    def create_job(self, spec: Object | None = None) -> None:
        """Create the job, by default with a new spec."""
        spec = self._spec(self.random) if spec is None else spec
        metadata: Object = {"name": self.turn}
        if self.is_queued:
            metadata |= copied(OF_QUEUE)
            spec = {**spec, "suspend": True}
        if self._is_sent:
            workload = f"{self.turn}-{next(self._sent)}"
            metadata["labels"][PREBUILT_WORKLOAD] = workload
            send_workload(self.api, workload, self.turn, spec)
        body = {"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata, "spec": spec}
        self.api.put(DIJOBS, NAMESPACE, body)

    def edit_job(self, **fields: object) -> None:
        """Change fields of the spec."""
        job = self.job
        assert job is not None
        job["spec"] |= fields
        self.api.put(DIJOBS, NAMESPACE, job)

    def edit(self, kind: str, change: Callable[[Object], None]) -> None:
        """Change all objects of a kind."""
        for body in self.api.all(kind):
            change(body)
            self.api.put(RESOURCES[kind], NAMESPACE, body)

    def set_status(self, pod: str, **status: object) -> None:
        """Report the status of a pod, as its kubelet does."""
        self.api.put(PODS, NAMESPACE, {**self.pods[pod], "status": status})

    def end(self, pod: str, exit_code: int) -> None:
        """End the program of a pod, whose kubelet may start it again."""
        if exit_code and self.pods[pod]["spec"].get("restartPolicy") == "OnFailure":
            self._crash(pod, exit_code)
            return
        phase, reason = ("Failed", "Error") if exit_code else ("Succeeded", "Completed")
        finished = format_time(self.clock.now())
        ended = {"exitCode": exit_code, "reason": reason, "finishedAt": finished}
        container = {"name": "di-container", "state": {"terminated": ended}}
        self.set_status(pod, phase=phase, containerStatuses=[container])

    def _crash(self, pod: str, exit_code: int) -> None:
        finished = format_time(self.clock.now())
        ended = {"exitCode": exit_code, "reason": "Error", "finishedAt": finished}
        container = {
            "name": "di-container",
            "restartCount": self._restarts(pod),
            "state": {"waiting": {"reason": "CrashLoopBackOff"}},
            "lastState": {"terminated": ended},
        }
        status = {"phase": "Running", "conditions": [{**READY, "status": "False"}]}
        self.set_status(pod, **status, containerStatuses=[container])

    def _restarts(self, pod: str) -> int:
        containers = self.pods[pod]["status"].get("containerStatuses") or [{}]
        return int(containers[0].get("restartCount", 0))

    def is_crashed(self, pod: str) -> bool:
        """Return whether the container of a pod waits to be started again."""
        containers = self.pods[pod]["status"].get("containerStatuses") or [{}]
        return "waiting" in containers[0].get("state", {})

    def _start_again(self, pod: str) -> None:
        (container,) = self.pods[pod]["status"]["containerStatuses"]
        again = {**container, "restartCount": container["restartCount"] + 1}
        again["state"] = {"running": {}}
        self.set_status(pod, phase="Running", conditions=[READY], containerStatuses=[again])

    def set_ready(self, pod: str, *, is_ready: bool) -> None:
        """Report whether a pod that runs is ready."""
        status = self.pods[pod]["status"]
        if status["phase"] == "Running" and not self.is_crashed(pod):
            self.set_status(pod, **{**status, "conditions": [{**READY, "status": str(is_ready)}]})

    def delete_job(self, finalizer: str | None) -> None:
        """Delete the job: with a finalizer it goes after its objects, or leaves them."""
        if finalizer is None:
            self.api.request_deletion(KIND, self.turn)
            return
        job = self.job
        assert job is not None
        job["metadata"] |= {
            "finalizers": [finalizer],
            "deletionTimestamp": format_time(self.clock.now()),
        }
        self.api.put(DIJOBS, NAMESPACE, job)

    async def change_leader(self) -> None:
        """Start another replica, which leads while the present one still believes that it does."""
        former, self.operator = self.operator, self._new_operator()
        self._former.append(former)
        await self._stand_by()
        await asyncio.sleep(self.random.choice([0.0, 0.0, 5.0]))
        self.operator.lead()
        self.is_contested = True
        await asyncio.sleep(self.random.choice([0.0, 0.3, 2.0, 6.0]))
        await former.stop()
        self.is_contested = False

    async def stop_operators(self) -> None:
        for operator in (*self._former, self.operator):
            await operator.stop()

    async def restart_operator(self) -> None:
        await self.operator.stop()
        await asyncio.sleep(self.random.choice([0.0, 0.1, 2.0]))
        self.operator = self._new_operator()
        await self._stand_by()
        self.operator.lead()

    async def _stand_by(self) -> None:
        """Start a process of the operator, which cannot know of pods that no watch selects."""
        await self.operator.stand_by()
        self.invisible |= {
            pod["metadata"]["uid"] for pod in self.pods.values() if not is_labelled(pod)
        }

    def calm_down(self) -> None:
        """Remove all that keeps the jobs from going on."""
        self.api.before = lambda verb, kind, name: None
        self.api.journey = lambda: None
        self.api.losing = 0.0
        self.api.remove_finalizers()
        self._remove_orphans()
        delete_failed_requests(self.api)
        self.scheduler.calm_down()
        if self.allocation is not None:
            add_nodes(self.api)
        for job in self.api.all(KIND):
            if job["spec"]["backoffLimit"] == UNREADABLE:
                job["spec"]["backoffLimit"] = 90
            is_by_user = not is_suspended_by_queue(job) and sweep_uid(job) is None
            if job["spec"].get("suspend") and is_by_user:
                job["spec"]["suspend"] = False
            self.api.put(DIJOBS, NAMESPACE, job)

    async def run_garbage_collector(self) -> None:
        """Do what the garbage collector does, until cancelled."""
        while True:
            await asyncio.sleep(self._of_garbage.choice([0.05, 0.3, 2.0]))
            collect_garbage(self.api)
            if self.allocation is not None:
                delete_homeless(self.api)

    async def run_kueue(self) -> None:
        """Admit Workloads, until cancelled."""
        while True:
            await asyncio.sleep(self._of_kueue.choice([0.05, 0.3, 2.0]))
            is_dispatched = self.job is not None and self.job["spec"].get("managedBy") == CONTROLLER
            admit_some(
                *(self.api, self.clock, self._of_kueue),
                is_checked=is_dispatched,
                most=self._pods_in_queue,
            )
            if is_dispatched:
                dispatch_some(self.api, self.clock, self._of_kueue, is_ending=self.is_ending)

    async def run_autoscaler(self) -> None:
        """Provide requested nodes, until cancelled."""
        while True:
            await asyncio.sleep(self._of_autoscaler.choice([0.3, 2.0]))
            provision_some(self.api, self._of_autoscaler)

    async def run_scheduler(self) -> None:
        """Bind pods to nodes, until cancelled."""
        while True:
            await asyncio.sleep(self._of_scheduler.choice([0.05, 0.3, 1.0]))
            if self.allocation is not None:
                self.scheduler.bind_some()

    async def run_kubelets(self) -> None:
        """Start and end the programs of pods, until cancelled."""
        random = self._of_kubelets
        while True:
            await asyncio.sleep(random.choice([0.02, 0.1, 0.3]))
            for name, pod in self.pods.items():
                phase, metadata = pod["status"]["phase"], pod["metadata"]
                is_terminating = "deletionTimestamp" in metadata
                chance = random.random()
                is_bound = self.allocation is None or "nodeName" in pod["spec"]
                if phase == "Pending" and is_bound and not is_terminating and chance < 0.3:
                    self._start(name, pod["spec"].get("nodeName", ""))
                elif phase == "Running" and is_terminating and chance < 0.3:
                    self.end(name, random.choice([0, 0, 143]))
                elif phase == "Running" and not is_terminating:
                    if self.is_crashed(name):
                        if chance < 0.2:
                            self._start_again(name)
                    elif self.is_ending and chance < 0.05:
                        self.end(name, 0)
                elif is_terminating and not metadata.get("finalizers") and chance < 0.5:
                    self._confirm_end(pod)

    def _start(self, name: str, node: str) -> None:
        """Start a pod, or reject it if its node has no free slot."""
        if node and is_full(self.api, node):
            self.set_status(name, phase="Failed", reason="OutOfSlots")
        else:
            self.set_status(name, phase="Running", conditions=[READY])

    def _remove_orphans(self) -> None:
        """Remove objects without an owner, whose names a job or a sweep needs."""
        owners = (SWEEP_KIND,) if self._is_sweeping else (KIND,)
        # An operator that was away has not adopted them yet.
        sent = (
            {job["metadata"]["labels"][PREBUILT_WORKLOAD] for job in self.api.all(KIND)}
            if self._is_sent
            else ()
        )
        for kind, namespace, name in list(self.api.objects):
            if (
                namespace
                and kind not in owners
                and name not in sent
                and not is_of_others(name)
                and not self.api.stored(kind)[name]["metadata"].get("ownerReferences")
            ):
                self.note(f"{kind} {name} is an orphan")
                self.api.request_deletion(kind, name)

    def _confirm_end(self, pod: Object) -> None:
        """Delete a pod that has ended, without any grace period left."""
        pod = copied(pod)
        pod["metadata"]["deletionGracePeriodSeconds"] = 0
        self.api.put(PODS, NAMESPACE, pod)
        self.api.remove(PODS.kind, pod["metadata"]["name"])

    def _new_operator(self) -> Operator:
        return Operator(self.api, self.clock, self._of_operator, self._follow_event, self._config)

    def _follow_event(self, event: JobEvent) -> None:
        self.events.append(event)
        self.note(f"event {event.reason}: {event.message}")
