"""What users do with jobs: the scenes in which faults strike."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

from di_api.names import ANNOTATION_SUSPENDED_BY, LABEL_QUEUE, SUSPENDED_BY_QUEUE
from tests.integration.operator_testbed import coordinated_job, job, replica, task
from tools.faults.stage import JOB, Stage, Story, finish_all, is_in, runs
from tools.faults.testbed import CHECKED_NODES, Object


async def success(stage: Stage) -> None:
    await stage.submit(job(JOB, task("work", 2)))
    await stage.reached("Running", runs(2))
    await finish_all(stage)


async def success_of_one(stage: Stage) -> None:
    policy = {"tasks": ["train"], "gracePeriodSeconds": 60}
    serve = task("serve", 2, stop_after="0.1")
    await stage.submit(job(JOB, task("train"), serve, successPolicy=policy))
    await stage.reached("Running", runs(3))
    await stage.finish("a-train-0")
    await stage.reached("Succeeded", is_in("Succeeded"))
    await stage.until("the others to be gone", lambda: [*stage.pods()] == ["a-train-0"])


async def failure(stage: Stage) -> None:
    await stage.submit(job(JOB, task("work", 2), backoffLimit=1))
    await stage.reached("Running", runs(2))
    await stage.fail("a-work-0")
    await stage.reached("Running again", runs(2, restarts=1))
    await stage.fail("a-work-1")
    await stage.reached("Failed", is_in("Failed"))


async def scale_out(stage: Stage) -> None:
    await stage.submit(job(JOB, task("work", 1)))
    await stage.reached("Running", runs(1))
    await stage.patch({"tasks": [task("work", 3)]})
    await stage.reached("Running with 3", runs(3))


async def scale_in(stage: Stage) -> None:
    await stage.submit(job(JOB, task("work", 3, stop_after="0.1")))
    await stage.reached("Running", runs(3))
    await stage.patch({"tasks": [task("work", 1, stop_after="0.1")]})
    await stage.reached("Running with 1", runs(1))
    await stage.until("surplus pods to be gone", lambda: len(stage.pods()) == 1)


async def suspend(stage: Stage) -> None:
    await stage.submit(job(JOB, task("work", 2, stop_after="0.1")))
    await stage.reached("Running", runs(2))
    await stage.patch({"suspend": True})
    await stage.reached("Pending", is_in("Pending"))
    await stage.until("its pods to be gone", lambda: not stage.pods())
    await stage.patch({"suspend": False})
    await stage.reached("Running", runs(2))


async def delete_during_start(stage: Stage) -> None:
    first = task("first", 2, ready_after="60", stop_after="0.1")
    await stage.submit(job(JOB, first, task("second", depends_on=("first",))))
    await stage.reached("Pending", is_in("Pending"))
    await stage.until("its first pods", lambda: len(stage.pods()) == 2)
    await stage.delete()
    await stage.until("everything to be gone", lambda: not stage.pods() and stage.job() is None)


async def recreate(stage: Stage) -> None:
    await stage.submit(job(JOB, task("work", 2, stop_after="0.2")))
    await stage.reached("Running", runs(2))
    await stage.delete()
    await stage.until("the job to be gone", lambda: stage.job() is None)
    earlier = {pod["metadata"]["uid"] for pod in stage.pods().values()}
    await stage.submit(job(JOB, task("work", 2, stop_after="0.2")))
    await stage.reached("Running", runs(2))
    assert not earlier & {pod["metadata"]["uid"] for pod in stage.pods().values()}


async def hand_over(stage: Stage) -> None:
    await stage.submit(job(JOB, task("work", 2)))
    await stage.until("its first pod", stage.pods)
    await stage.hand_over()
    await stage.reached("Running", runs(2))
    await finish_all(stage)


COORDINATOR, FIRST, SECOND = f"{JOB}-coordinator", f"{JOB}-collector-1", f"{JOB}-collector-2"
ASKED_FOR = frozenset({FIRST, SECOND})
"""Collectors: once the coordinator is there they change no phase of their job."""


def _serve(stage: Stage, *names: str) -> Callable[[], bool]:
    """Exactly these pods run."""

    def test() -> bool:
        phases = {name: (pod.get("status") or {}) for name, pod in stage.pods().items()}
        return phases.keys() == set(names) and all(
            status.get("phase") == "Running" for status in phases.values()
        )

    return test


async def dismiss(stage: Stage) -> None:
    """Ask for nobody: the last status has the counts of what was seen by then, early or late."""
    await stage.patch({"coordinated": {"replicas": []}})
    await stage.until("the coordinator to be alone", _serve(stage, COORDINATOR))


async def ask(stage: Stage) -> None:
    await stage.submit(coordinated_job(JOB, notes={"fake/stop-after": "0.1"}))
    await stage.reached("Running", is_in("Running"))
    await stage.patch({"coordinated": {"replicas": [replica(FIRST), replica(SECOND)]}})
    await stage.until("two collectors", _serve(stage, COORDINATOR, FIRST, SECOND))
    await stage.patch({"coordinated": {"replicas": [replica(SECOND)]}})
    await stage.until("one collector", _serve(stage, COORDINATOR, SECOND))
    await dismiss(stage)
    await stage.finish(COORDINATOR)
    await stage.reached("Succeeded", is_in("Succeeded"))


async def replace(stage: Stage) -> None:
    await stage.submit(coordinated_job(JOB, replica(FIRST), notes={"fake/stop-after": "0.1"}))
    await stage.until("a collector", _serve(stage, COORDINATOR, FIRST))
    await stage.reached("Running", is_in("Running"))
    await stage.fail(FIRST)
    await stage.reached("a restart", lambda status: status.get("restarts", 0) >= 1)
    await stage.until("another collector", _serve(stage, COORDINATOR, FIRST))
    await dismiss(stage)
    await stage.fail(COORDINATOR)
    await stage.reached("Failed", is_in("Failed"))


async def policy(stage: Stage) -> None:
    work = task("work", stop_after="0.1")
    work["backoffLimit"] = 1
    (container,) = work["template"]["spec"]["containers"]
    container["resources"] = {"limits": {"memory": "64Mi"}}
    rules = [
        {"tasks": ["group"], "action": "RestartTask"},
        {"onReasons": ["OOMKilled"], "growMemory": {"factor": 2}},
    ]
    group = task("group", 2, stop_after="0.1")
    await stage.submit(job(JOB, group, work, failurePolicy={"rules": rules}))
    await stage.reached("Running", runs(3))
    await stage.exhaust("a-work-0")
    await stage.reached("Running with more memory", runs(3, restarts=1))
    await stage.fail("a-group-0")
    await stage.reached("Running with another group", runs(3, restarts=2))
    await stage.fail("a-work-0")
    await stage.reached("Failed", is_in("Failed"))


def _meet(generation: int, *members: str) -> Callable[[Object], bool]:
    """There is such a world of task work."""

    def test(status: Object) -> bool:
        found = (status.get("groups") or {}).get("work") or {}
        is_formed = (found.get("generation"), found.get("state")) == (generation, "Formed")
        return is_formed and sorted(found["members"]) == [*members]

    return test


async def members(stage: Stage) -> None:
    group = {"processGroup": {"elastic": True}, "minReplicas": 2, "maxReplicas": 3}
    rules = [{"action": "RestartInPlace"}]
    body = job(JOB, {**task("work", 2), **group}, backoffLimit=1, failurePolicy={"rules": rules})
    await stage.submit(body)
    await stage.reached("Running", runs(2))
    await stage.reached("a world of two", _meet(1, "0", "1"))
    await stage.restart("a-work-1")
    await stage.reached("Running again", runs(2, restarts=1))
    await stage.reached("another world of two", _meet(2, "0", "1"))
    await stage.patch({"tasks": [{**task("work", 3), **group}]})
    await stage.reached("Running with 3", runs(3))
    await stage.reached("a world of three", _meet(3, "0", "1", "2"))
    await stage.restart("a-work-0")
    await stage.reached("Failed", is_in("Failed"))


async def pods_of_a_replica(stage: Stage) -> None:
    def rollout(replicas: int) -> Object:
        return {**task("work", replicas, stop_after="0.1"), "podsPerReplica": 2}

    await stage.submit(job(JOB, rollout(1), failurePolicy={"replicaBackoffLimit": 1}))
    await stage.reached("Running", runs(2))
    await stage.fail("a-work-0-1")
    await stage.reached("Running with another replica", runs(2, restarts=1))
    await stage.patch({"tasks": [rollout(2)]})
    await stage.reached("Running with 2", runs(4))
    await stage.fail("a-work-0-0")
    await stage.reached("Failed", is_in("Failed"))


async def node_check(stage: Stage) -> None:
    train = task("train", 3)
    train["nodeCheck"] = {"command": ["check"]}
    # Bound by nobody but the story, and gone as soon as it is deleted.
    train["template"]["spec"] |= {
        "terminationGracePeriodSeconds": 0,
        "schedulerName": "nobody",
        "nodeSelector": {"kubernetes.io/hostname": "none"},
    }
    *alike, slow, spare = CHECKED_NODES
    await stage.submit(job(JOB, train))
    await stage.until("its pods", lambda: len(stage.pods()) == 3)
    moved = stage.pods()["a-train-2"]["metadata"]["uid"]
    for index, node in enumerate(alike):
        await stage.check(f"a-train-{index}", node=node, seconds=1.0)
    await stage.check("a-train-2", node=slow, seconds=9.0)

    def has_moved() -> bool:
        pod = stage.pods().get("a-train-2")
        return pod is not None and pod["metadata"]["uid"] != moved

    await stage.until("a pod for the one on the slow node", has_moved)
    await stage.check("a-train-2", node=spare, seconds=1.0)
    await stage.reached("Running on nodes that are alike", runs(3))
    await finish_all(stage)


async def leaving(stage: Stage) -> None:
    service = {"ports": [{"name": "http", "port": 80}]}
    drain = {"path": "/drain", "port": 80}

    def serve(replicas: int, *vacant: int) -> Object:
        work = task("work", replicas, stop_after="0.1")
        return {**work, "service": service, "drain": drain, "vacant": [*vacant]}

    def are(*indexes: int) -> Callable[[], bool]:
        return lambda: {*stage.pods()} == {f"{JOB}-work-{index}" for index in indexes}

    await stage.submit(job(JOB, serve(3)))
    await stage.reached("Running", runs(3))
    await stage.patch({"tasks": [serve(2, 0)]})
    await stage.until("the first to be gone", are(1, 2))
    # Nobody comes after it: the rank of that one hangs on whether the end of the first was seen.
    await stage.reached("Running with 2", runs(2))
    await finish_all(stage)


COMPANION: Final = f"{JOB}-config"
"""The name of the object that the job of `companions` brings along."""


async def companions(stage: Stage) -> None:
    brought = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "$(JOB)-config"}}
    body = job(JOB, task("work", 2, stop_after="0.1"), companions=[brought | {"data": {"a": "b"}}])
    await stage.submit(body)
    await stage.reached("Running", runs(2))
    await stage.fail("a-work-0")
    await stage.reached("Running again", runs(2, restarts=1))
    await finish_all(stage)


async def standby(stage: Stage) -> None:
    first, second = f"{JOB}-work-0", f"{JOB}-work-1"
    by, another = f"{JOB}-work-standby-0", f"{JOB}-work-standby-1"

    def stand(*names: str) -> Callable[[], bool]:
        """These pods are there, the last of them ready."""
        return lambda: {*stage.pods()} == {*names} and _is_ready(stage.pods()[names[-1]])

    def is_taken(status: Object) -> bool:
        return bool(status.get("standIns") == {"work": {"1": by}})

    await stage.submit(job(JOB, {**task("work", 2, stop_after="0.1"), "standby": 1}))
    await stage.until("one that stands by", stand(first, second, by))
    await stage.reached("Running", runs(2))
    # As long as it is there, the other one takes its place however late that is seen to be ready.
    await stage.hold(second)
    await stage.fail(second)
    await stage.reached("the place to be taken", is_taken)
    await stage.until("another that stands by", stand(first, second, by, another))
    await stage.let_go(second)
    await stage.until("the one that failed to be gone", stand(first, by, another))
    await stage.reached("Running again", runs(2, restarts=1))
    await asyncio.gather(stage.finish(first), stage.finish(by))
    await stage.reached("Succeeded", is_in("Succeeded"))
    await stage.until("nobody to stand by", lambda: {*stage.pods()} == {first, by})


def _is_ready(pod: Object) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any((each["type"], each["status"]) == ("Ready", "True") for each in conditions)


async def queued(stage: Stage) -> None:
    queue = await stage.queue("2")
    work = {**task("work", 2, stop_after="0.1"), "minReplicas": 1, "maxReplicas": 3, "elastic": {}}
    (container,) = work["template"]["spec"]["containers"]
    container["resources"] = {"requests": {"cpu": "1"}}
    # As the webhook leaves it.
    body = job(JOB, work, suspend=True)
    body["metadata"] |= {
        "labels": {LABEL_QUEUE: queue},
        "annotations": {ANNOTATION_SUSPENDED_BY: SUSPENDED_BY_QUEUE},
    }
    core, extra = f"{JOB}-work-0", f"{JOB}-work-1"
    await stage.submit(body)
    # The status counts who comes and goes as soon as there may be one.
    await stage.until("its two pods", _serve(stage, core, extra))
    await stage.reached("Running", runs(2))
    await stage.stop_queue("HoldAndDrain")
    await stage.until("its pods to be gone", lambda: not stage.pods())
    await stage.reached("Pending", is_in("Pending"))
    await stage.stop_queue(None)
    await stage.until("its two pods again", _serve(stage, core, extra))
    await stage.reached("Running", runs(2))
    await stage.patch({"tasks": [{**work, "replicas": 1}]})
    await stage.until("the one that comes and goes to be gone", _serve(stage, core))
    await stage.reached("its quota to be back", lambda status: status["admitted"] == {"work": 1})
    await finish_all(stage)


WORKLOADS: Mapping[str, Story] = {
    "success": success,
    "failure": failure,
    "scale-out": scale_out,
    "scale-in": scale_in,
    "suspend": suspend,
    "delete": delete_during_start,
    "recreate": recreate,
    "hand-over": hand_over,
    "ask": ask,
    "replace": replace,
    "success-of-one": success_of_one,
    "policy": policy,
    "members": members,
    "pods-of-a-replica": pods_of_a_replica,
    "node-check": node_check,
    "leaving": leaving,
    "companions": companions,
    "standby": standby,
}

QUEUED: Mapping[str, Story] = {"queued": queued}
"""Of jobs with a queue: beside a real Kueue, in an API server that has its kinds."""

STORIES: Mapping[str, Story] = {**WORKLOADS, **QUEUED}

RACING = frozenset({"delete", "recreate"})
"""Where a user deletes a job: the garbage collector and the operator race for its objects."""

HOLDING = frozenset({"standby"})
"""Where a deleted pod is held until something else has happened, which takes as long as the machine
and the fault want.
"""

REPLICAS: Mapping[str, int] = {"hand-over": 2}
"""Replicas of the operator; one unless said."""
