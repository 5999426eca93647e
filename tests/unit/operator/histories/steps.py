"""What can happen to a job, its objects and its operator, by name."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from di_api.names import LABEL_OPERATOR
from di_api.timestamps import format_time
from di_kube.errors import ApiError, Conflict, Forbidden, Unavailable
from di_kube.resources import DIJOB_TASKS, DIJOBS, PODS, WORKLOADS
from tests.unit.operator.fake_api import Object
from tests.unit.operator.histories.api import FINALIZER, NAMESPACE, Journey, copied
from tests.unit.operator.histories.garbage import FOREGROUND, ORPHAN
from tests.unit.operator.histories.jobs import COLLECTORS, requested
from tests.unit.operator.histories.nodes import NAMES, add_nodes, add_other, cordon, lose
from tests.unit.operator.histories.queue import is_admitted, set_conditions
from tests.unit.operator.histories.schedulers import UNWATCHED, edit_objects, fail_requests
from tests.unit.operator.histories.sweeps import OF_SWEEPS
from tests.unit.operator.histories.world import UNREADABLE, World

DISRUPTED: Final = {"type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet"}
SECONDS: Final = (0.1, 1.0, 5.0)
"""The longest times that a request takes to the API server."""


def end_pod(world: World, pod: str, exit_code: int) -> None:
    if world.pods[pod]["status"]["phase"] == "Running":
        world.end(pod, exit_code)


def end_all_pods(world: World) -> None:
    for pod in world.pods_in("Running"):
        world.end(pod, 0)


def hold_pod(world: World, pod: str) -> None:
    body = copied(world.pods[pod])
    _add_finalizer(body)
    world.api.put(PODS, NAMESPACE, body)


def annotate_pod(world: World, pod: str) -> None:
    body = copied(world.pods[pod])
    body["metadata"].setdefault("annotations", {})["example.com/network"] = str(
        world.random.random()
    )
    world.api.put(PODS, NAMESPACE, body)


def remove_labels(world: World, pod: str) -> None:
    """Remove the labels of a pod except for the one that the watch selects."""
    body = copied(world.pods[pod])
    labels = body["metadata"].get("labels") or {}
    body["metadata"]["labels"] = {
        key: value for key, value in labels.items() if key == LABEL_OPERATOR
    }
    world.api.put(PODS, NAMESPACE, body)


def remove_all_labels(world: World, pod: str) -> None:
    body = copied(world.pods[pod])
    body["metadata"].pop("labels", None)
    world.api.put(PODS, NAMESPACE, body)


def end_and_delete(world: World, pod: str) -> None:
    """Delete a pod by force in the moment in which its program ends."""
    end_pod(world, pod, 0)
    world.api.request_deletion(PODS.kind, pod, 0)


def evict_pod(world: World, pod: str) -> None:
    """End a pod as the kubelet of a node without memory does."""
    if world.pods[pod]["status"]["phase"] == "Running":
        world.set_status(pod, phase="Failed", reason="Evicted", conditions=[DISRUPTED])


def preempt_pod(world: World, pod: str) -> None:
    """Delete a pod as the scheduler does for one of a higher priority."""
    status = world.pods[pod]["status"]
    if status["phase"] in ("Pending", "Running"):
        kept = [each for each in status.get("conditions", ()) if each != DISRUPTED]
        world.set_status(pod, **{**status, "conditions": [*kept, DISRUPTED]})
        world.api.request_deletion(PODS.kind, pod)


def make_all_ready(world: World) -> None:
    for pod in world.pods_in("Running"):
        world.set_ready(pod, is_ready=True)


def delete_all(world: World, kind: str) -> None:
    for body in world.api.all(kind):
        world.api.request_deletion(kind, body["metadata"]["name"])


def edit_services(world: World) -> None:
    world.edit("Service", lambda body: body["spec"].update(selector={"x": "y"}))


def remove_labels_of_services(world: World) -> None:
    kept = world.random.choice([(), (LABEL_OPERATOR,)])

    def change(body: Object) -> None:
        labels = body["metadata"].get("labels") or {}
        body["metadata"]["labels"] = {key: labels[key] for key in kept if key in labels}

    world.edit("Service", change)


def scale(world: World) -> None:
    """Change the replicas of a task, or those that a coordinator requests."""
    job = world.job
    assert job is not None
    if "coordinated" in job["spec"]:
        request_replicas(world)
        return
    tasks = job["spec"]["tasks"]
    world.random.choice(tasks)["replicas"] = world.random.randrange(1, 5)
    world.edit_job(tasks=tasks)


def scale_by_task(world: World) -> None:
    """Request another number of replicas by a DIJobTask, as an autoscaler does."""
    if tasks := world.api.all(DIJOB_TASKS.kind):
        body = world.random.choice(tasks)
        body["spec"]["replicas"] = world.random.randrange(8)
        world.api.put(DIJOB_TASKS, NAMESPACE, body)


def edit_job_tasks(world: World) -> None:
    """Remove labels and annotations of DIJobTasks, and change their bounds."""

    def change(body: Object) -> None:
        body["metadata"] |= {"labels": {}, "annotations": {}}
        body["spec"]["maxReplicas"] = 99

    world.edit(DIJOB_TASKS.kind, change)


def change_scalable(world: World) -> None:
    job = world.job
    assert job is not None
    tasks = job["spec"]["tasks"]
    found = world.random.choice(tasks)
    found["scalable"] = not found.get("scalable", False)
    world.edit_job(tasks=tasks)


def name_leaving(world: World) -> None:
    """Leave an index without a replica, as the removal of a replica by name does."""
    job = world.job
    assert job is not None
    tasks = job["spec"]["tasks"]
    # The core of an elastic tier has no gaps.
    some = range("elastic" in tasks[0], 5)
    tasks[0]["vacant"] = world.random.sample(some, world.random.randrange(3))
    world.edit_job(tasks=tasks)


def request_restart(world: World) -> None:
    """Request new pods, of the job or of a task."""
    job = world.job
    assert job is not None
    value = str(world.random.random())
    if world.random.random() < 0.5:
        world.edit_job(restartedAt=value)
        return
    tasks = job["spec"]["tasks"]
    world.random.choice(tasks)["restartedAt"] = value
    world.edit_job(tasks=tasks)


def request_replicas(world: World) -> None:
    """Request other replicas, as a coordinator does."""
    job = world.job
    assert job is not None
    names = [name for name in COLLECTORS if world.random.random() < 0.6]
    world.edit_job(coordinated={**job["spec"]["coordinated"], "replicas": requested(names)})


def report(world: World) -> None:
    """Report the speed of the learners, as a job does."""
    job = world.job
    assert job is not None
    random = world.random
    profilings = {
        "reportedAt": format_time(world.clock.now()),
        "learners": random.randrange(1, 6),
        "batchSize": 128,
        "maxBatchSize": random.choice([128, 4096]),
        "trainStepsPerSec": random.choice([0.5, 5.0]),
        "gradParams": {"sqr": 1.0, "var": random.choice([0.0, 100.0])},
    }
    if random.random() < 0.5:
        profilings |= {"envSteps": random.randrange(1000), "maxEnvSteps": 10**6}
    job["status"] = {**(job.get("status") or {}), "profilings": profilings}
    world.api.put(DIJOBS, NAMESPACE, job)


def suspend_or_resume(world: World) -> None:
    job = world.job
    assert job is not None
    world.edit_job(suspend=not job["spec"].get("suspend", False))


def refuse_requests(world: World) -> None:
    """Let a share of the requests fail from now on."""
    share, random = world.random.choice([0.0, 0.2, 0.6]), world.random

    def answer(verb: str, kind: str, name: str) -> ApiError | None:
        if random.random() >= share:
            return None
        is_edit = verb in ("replace", "patch")
        error = Conflict if is_edit and random.random() < 0.3 else Unavailable
        return error(kind=kind, name=name)

    world.api.before = answer


def refuse_pods(world: World) -> None:
    """Refuse new pods from now on, as an admission policy or a quota does."""
    message = world.random.choice(["exceeded quota: team", "denied by a policy"])

    def answer(verb: str, kind: str, name: str) -> ApiError | None:
        if verb != "create" or kind != PODS.kind:
            return None
        return Forbidden(kind=kind, name=name, code=403, message=message)

    world.api.before = answer


def delay_requests(world: World) -> None:
    """Let requests or their responses take long from now on; some clients give up before."""
    share, longest, random = (
        world.random.choice([0.1, 0.5]),
        world.random.choice(SECONDS),
        world.random,
    )

    def journey() -> Journey | None:
        if random.random() >= share:
            return None
        times = [random.uniform(0.0, longest) for _ in range(3)]
        return Journey(there=times[0], back=times[1], patience=times[2])

    world.api.journey = journey


async def replace_job(world: World) -> None:
    """Delete the job, and create another one of the same name as soon as it is gone, half of the
    times with another spec.
    """
    job = world.job
    assert job is not None
    world.delete_job(world.random.choice([None, FOREGROUND, ORPHAN]))
    await asyncio.sleep(world.random.choice([0.0, 0.1, 3.0]))
    held_until = world.clock.monotonic() + 30.0
    while world.job is not None:
        if (now := world.clock.monotonic()) > held_until:
            world.api.remove_finalizers()
            # An operator that cannot read everything removes no finalizer of a Workload.
            world.api.before = lambda verb, kind, name: None
            world.api.journey = lambda: None
        assert now < held_until + 60.0, "the garbage collector does not delete the job"
        await asyncio.sleep(0.3)
    world.create_job(world.random.choice([None, job["spec"]]))


def evict(world: World) -> None:
    """Let Kueue request the quota of an admitted Workload back."""
    if admitted := [name for name in world.api.stored("Workload") if is_admitted(world.api, name)]:
        name = world.random.choice(admitted)
        # Kueue resets it when it evicts a Workload.
        body = copied(world.api.stored("Workload")[name])
        body["status"].pop("clusterName", None)
        world.api.put(WORKLOADS, NAMESPACE, body)
        set_conditions(world.api, world.clock, name, Evicted=True)


def delete_unwatched(world: World) -> None:
    """Delete the objects of a kind that no watch shows."""
    delete_all(world, world.random.choice(UNWATCHED))


def lose_events(world: World) -> None:
    """Let watches lose a share of their events from now on, which only a poll finds out."""
    world.api.losing = world.random.choice([0.1, 0.5])


async def restart_operator(world: World) -> None:
    await world.restart_operator()


def _add_finalizer(body: Object) -> None:
    """Add a finalizer to an object; to one that is being deleted none can be added."""
    if "deletionTimestamp" not in body["metadata"]:
        body["metadata"]["finalizers"] = [FINALIZER]


OF_PODS: Final[Mapping[str, Callable[[World, str], None]]] = {
    "pod succeeds": lambda world, pod: end_pod(world, pod, 0),
    "pod fails": lambda world, pod: end_pod(world, pod, 1),
    "pod is deleted": lambda world, pod: _delete_pod(world, pod, None),
    "pod is deleted by force": lambda world, pod: _delete_pod(world, pod, 0),
    "pod gets a finalizer": hold_pod,
    "pod is annotated": annotate_pod,
    "pod succeeds and is deleted by force": end_and_delete,
    "pod is evicted": evict_pod,
    "pod is preempted": preempt_pod,
    "pod loses its labels": remove_labels,
    "pod loses all labels": remove_all_labels,
    "pod becomes unready": lambda world, pod: world.set_ready(pod, is_ready=False),
}
"""Steps that need a pod."""


def _delete_pod(world: World, pod: str, grace: int | None) -> None:
    world.api.request_deletion(PODS.kind, pod, grace)


OTHERS: Final[Mapping[str, Callable[[World], Awaitable[None] | None]]] = {
    "all pods succeed": end_all_pods,
    "all pods become ready": make_all_ready,
    "Service is deleted": lambda world: delete_all(world, "Service"),
    "Service gets a finalizer": lambda world: world.edit("Service", _add_finalizer),
    "Service is edited": edit_services,
    "ConfigMap is deleted": lambda world: delete_all(world, "ConfigMap"),
    "replicas are changed": scale,
    "replica leaves by name": name_leaving,
    "DIJobTask is scaled": scale_by_task,
    "DIJobTask is edited": edit_job_tasks,
    "DIJobTask is deleted": lambda world: delete_all(world, DIJOB_TASKS.kind),
    "task gets or loses its DIJobTask": change_scalable,
    "restart is requested": request_restart,
    "job is suspended or resumed": suspend_or_resume,
    "backoffLimit is edited": lambda world: world.edit_job(
        backoffLimit=world.random.randrange(50, 99)
    ),
    "spec becomes unreadable": lambda world: world.edit_job(backoffLimit=UNREADABLE),
    "TTL is edited": lambda world: world.edit_job(
        ttlSecondsAfterFinished=world.random.choice([0, 5, 20])
    ),
    "all goes well": lambda world: world.calm_down(),
    "requests fail": refuse_requests,
    "requests take long": delay_requests,
    "pods are refused": refuse_pods,
    "watches lose events": lose_events,
    "watches are cut": lambda world: world.api.cut_watches(),
    "operator restarts": restart_operator,
    "another replica leads": lambda world: world.change_leader(),
    "Kueue evicts": evict,
    "node is cordoned": lambda world: cordon(world.api, world.random.choice(NAMES)),
    "node is lost": lambda world: lose(world.api, world.random.choice(NAMES)),
    "job reports": report,
    "nodes are added": lambda world: add_nodes(world.api),
    "another pod comes": lambda world: add_other(world.api, world.random),
    "scheduler refuses a node": lambda world: world.scheduler.refuse(world.random.choice(NAMES)),
    "scheduler becomes slow": lambda world: world.scheduler.slow_down(),
    "scheduler goes on": lambda world: world.scheduler.calm_down(),
    "Workload is deleted": lambda world: delete_all(world, "Workload"),
    "unwatched objects are deleted": delete_unwatched,
    "unwatched objects are edited": lambda world: edit_objects(world.api),
    "ProvisioningRequest fails": lambda world: fail_requests(world.api),
    "operator polls": lambda world: world.operator.poll(),
    "job is replaced": replace_job,
    "Service loses its labels": remove_labels_of_services,
    "priority is edited": lambda world: world.edit_job(
        priority=world.random.choice(["normal", "high"])
    ),
}
"""Steps that need no pod."""


async def take(world: World, step: str) -> None:
    """Take a step; one that needs a pod is left out while there is none."""
    if step in OF_PODS:
        pods = [*world.pods]
        if pods:
            pod = world.random.choice(pods)
            world.note(f"- {step}: {pod}")
            OF_PODS[step](world, pod)
        return
    world.note(f"- {step} ({world.turn})")
    waiting = (OF_SWEEPS.get(step) or OTHERS[step])(world)
    if waiting is not None:
        await waiting
