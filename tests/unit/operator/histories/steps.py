"""What can happen to a job, its objects and its operator, by name."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from di_api.names import LABEL_OPERATOR
from di_kube.errors import ApiError, Conflict, Unavailable
from di_kube.resources import PODS
from tests.unit.operator.fake_api import Object
from tests.unit.operator.histories.api import NAMESPACE, copied
from tests.unit.operator.histories.jobs import COLLECTORS, requested
from tests.unit.operator.histories.world import READY, World

FINALIZER: Final = "example.com/held"


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
    body["metadata"]["labels"] = {LABEL_OPERATOR: body["metadata"]["labels"][LABEL_OPERATOR]}
    world.api.put(PODS, NAMESPACE, body)


def make_unready(world: World, pod: str) -> None:
    if world.pods[pod]["status"]["phase"] == "Running":
        world.set_status(pod, phase="Running", conditions=[{**READY, "status": "False"}])


def make_all_ready(world: World) -> None:
    for pod in world.pods_in("Running"):
        world.set_status(pod, phase="Running", conditions=[READY])


def delete_all(world: World, kind: str) -> None:
    for body in world.api.all(kind):
        world.api.request_deletion(kind, body["metadata"]["name"])


def edit_services(world: World) -> None:
    world.edit("Service", lambda body: body["spec"].update(selector={"x": "y"}))


def scale(world: World) -> None:
    job = world.job
    assert job is not None
    tasks = job["spec"]["tasks"]
    world.random.choice(tasks)["replicas"] = world.random.randrange(1, 5)
    world.edit_job(tasks=tasks)


def request_replicas(world: World) -> None:
    """Request other replicas, as a coordinator does."""
    job = world.job
    assert job is not None
    names = [name for name in COLLECTORS if world.random.random() < 0.6]
    world.edit_job(coordinated={**job["spec"]["coordinated"], "replicas": requested(names)})


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
        error = Conflict if verb == "replace" and random.random() < 0.3 else Unavailable
        return error(kind=kind, name=name)

    world.api.before = answer


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
    "pod loses its labels": remove_labels,
    "pod becomes unready": make_unready,
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
    "task is scaled": scale,
    "coordinator requests replicas": request_replicas,
    "job is suspended or resumed": suspend_or_resume,
    "backoffLimit is edited": lambda world: world.edit_job(
        backoffLimit=world.random.randrange(50, 99)
    ),
    "TTL is edited": lambda world: world.edit_job(
        ttlSecondsAfterFinished=world.random.choice([0, 5, 20])
    ),
    "all goes well": lambda world: world.calm_down(),
    "requests fail": refuse_requests,
    "watches are cut": lambda world: world.api.cut_watches(),
    "operator restarts": restart_operator,
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
    world.note(f"- {step}")
    waiting = OTHERS[step](world)
    if waiting is not None:
        await waiting
