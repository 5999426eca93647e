"""The jobs of the histories, by seed."""

from __future__ import annotations

from copy import deepcopy
from random import Random
from typing import Any, Final

from tests.unit.allocator.objects import SLOT
from tests.unit.lifecycle.cluster_model import task
from tests.unit.operator.fake_api import Object
from tests.unit.operator.histories.multikueue import CONTROLLER

TEMPLATE: Final = {
    "spec": {"restartPolicy": "Never", "containers": [{"name": "di-container", "image": "x"}]}
}
COLLECTORS: Final = tuple(f"a-collector-{letter * 5}" for letter in "bcdf")


def of_plain_tasks(random: Random) -> Object:
    """A job of one or two tasks, the second perhaps after the first."""
    tasks = [task("w", random.randrange(1, 5))]
    if random.random() < 0.5:
        later = {"dependsOn": ["w"]} if random.random() < 0.3 else {}
        tasks.append(task("v", random.randrange(1, 4), **later))
    spec: Object = {"tasks": tasks, "backoffLimit": 50}
    if random.random() < 0.4:
        spec["cleanPodPolicy"] = random.choice(["All", "None", "Running"])
    return spec


def of_groups(random: Random) -> Object:
    """A job whose replicas can have several pods, with rules for failures and the success."""
    tasks = [task("w", random.randrange(1, 4), podsPerReplica=random.choice([1, 2, 3]))]
    if random.random() < 0.5:
        tasks.append(task("v", random.randrange(1, 3)))
    spec: Object = {"tasks": tasks, "backoffLimit": 80}
    action = random.choice(["RestartTask", "Ignore", "RestartJob", None])
    if action is not None:
        spec["failurePolicy"] = {"rules": [{"tasks": ["w"], "action": action}]}
    if random.random() < 0.2:
        spec["successPolicy"] = {"tasks": ["w"]}
    return spec


def coordinated(random: Random) -> Object:
    """A job of a coordinator and the replicas that it asked for."""
    roles: dict[str, Any] = {
        role: {"template": deepcopy(TEMPLATE)} for role in ("coordinator", "collector", "learner")
    }
    replicas = requested(COLLECTORS[: random.randrange(1, 4)])
    return {"coordinated": {**roles, "replicas": replicas}, "backoffLimit": 80}


def requested(names: tuple[str, ...] | list[str]) -> list[Object]:
    """The replicas that a coordinator asks for."""
    return [{"name": name, "role": "collector"} for name in names]


def elastic(random: Random) -> Object:
    """A job whose first task has what only some jobs have, and perhaps a task that waits for it."""
    first = task("w", random.randrange(1, 5), minReplicas=1, maxReplicas=5)
    choices: dict[str, Any] = {
        "standby": random.choice([1, 2]),
        "elastic": {},
        "processGroup": {"elastic": True, "lastCallSeconds": 1, "deadlineSeconds": 5},
        "drain": {"command": ["true"], "timeoutSeconds": 5},
        "service": {"ports": [{"name": "http", "port": 80}]},
        "maxUnavailable": 1,
        "backoffLimit": "Unlimited",
        "onCompletion": "CompleteJob",
    }
    without = random.choice(["standby", "elastic"])
    first |= {
        key: value for key, value in choices.items() if random.random() < 0.4 and key != without
    }
    tasks = [first]
    if random.random() < 0.6:
        later = {"dependsOn": ["w"]} if random.random() < 0.7 else {}
        tasks.append(task("v", random.randrange(1, 3), maxReplicas=5, **later))
    spec: Object = {"tasks": tasks, "backoffLimit": 80}
    if random.random() < 0.3:
        spec["failurePolicy"] = {"rules": [{"tasks": ["w"], "action": "RestartTask"}]}
    return spec


def restarted_in_place(random: Random) -> Object:
    """A job whose failed containers are started again in their pods, perhaps as a group."""
    first = task("w", random.randrange(1, 5), minReplicas=1, maxReplicas=5)
    choices: dict[str, Any] = {
        "processGroup": {"elastic": True, "lastCallSeconds": 1, "deadlineSeconds": 5},
        "standby": 1,
        "backoffLimit": random.choice([3, "Unlimited"]),
    }
    first |= {key: value for key, value in choices.items() if random.random() < 0.4}
    tasks = [first]
    if random.random() < 0.5:
        tasks.append(task("v", random.randrange(1, 3), maxReplicas=5))
    rules: list[Object] = [{"tasks": ["w"], "action": "RestartInPlace"}]
    if random.random() < 0.3:
        rules.insert(
            0,
            {
                "tasks": ["w"],
                "onExitCodes": {"operator": "In", "values": [1]},
                "action": "RestartTask",
            },
        )
    policy: Object = {"rules": rules}
    return {"tasks": tasks, "backoffLimit": random.choice([2, 80]), "failurePolicy": policy}


def scalable(random: Random) -> Object:
    """A job of which tasks have a DIJobTask."""
    sizes: Object = {"minReplicas": 1, "maxReplicas": 5, "scalable": True}
    tasks = [task("w", random.randrange(1, 5), **sizes)]
    if random.random() < 0.3:
        tasks[0]["standby"] = 1
    if random.random() < 0.6:
        tasks.append(task("v", random.randrange(1, 4), **(sizes if random.random() < 0.7 else {})))
    return {"tasks": tasks, "backoffLimit": 80}


def with_unwatched_objects(random: Random) -> Object:
    """A job with objects for schedulers or of its own."""
    first = task("w", random.randrange(1, 5), minReplicas=1, maxReplicas=5)
    if random.random() < 0.4:
        first["maxUnavailable"] = 1
    tasks = [first]
    if random.random() < 0.5:
        later = {"dependsOn": ["w"]} if random.random() < 0.5 else {}
        tasks.append(task("v", random.randrange(1, 3), maxReplicas=5, **later))
    spec: Object = {"tasks": tasks, "backoffLimit": 80}
    scheduling: Object = {}
    if random.random() < 0.6:
        scheduling["gangScheduler"] = random.choice(["volcano", "scheduler-plugins", "kubernetes"])
    if random.random() < 0.4:
        scheduling["provisioningClassName"] = "best-effort"
    if scheduling:
        spec["scheduling"] = scheduling
    if random.random() < 0.5:
        spec["companions"] = [
            {"apiVersion": "v1", "kind": kind, "metadata": {"name": f"$(JOB)-{kind.lower()}"}}
            for kind in ("PersistentVolumeClaim", "ConfigMap")
        ]
    return spec


def preemptible(random: Random) -> Object:
    """A job of which the allocator decides how many replicas it has, and where."""
    container = {"name": "di-container", "image": "x", "resources": {"limits": {SLOT: "1"}}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    sizes = {"type": "learner", "minReplicas": 1, "maxReplicas": 5, "template": template}
    tasks = [{**task("w", random.randrange(1, 5)), **sizes}]
    if random.random() < 0.5:
        tasks.append({**task("v", random.randrange(1, 4)), **sizes, "type": "collector"})
    spec: Object = {"tasks": tasks, "backoffLimit": 80, "preemptible": True}
    if random.random() < 0.3:
        spec["scheduling"] = {"gang": True}
    return spec


def preemptible_or_gang(random: Random) -> Object:
    """A job that the allocator places, or one that starts whole and is placed by the scheduler."""
    spec = preemptible(random)
    if random.random() < 0.5:
        spec |= {"preemptible": False, "scheduling": {"gang": True}}
        if len(spec["tasks"]) > 1 and random.random() < 0.3:
            spec["tasks"][1]["dependsOn"] = ["w"]
    return spec


def of_any_type(random: Random) -> Object:
    """A job of any type."""
    return random.choice([elastic, elastic, of_groups, coordinated])(random)


def of_tasks(random: Random) -> Object:
    """A job of any type whose pods are named by the job."""
    return random.choice([elastic, elastic, of_groups])(random)


def dispatched(random: Random) -> Object:
    """A job that another cluster runs."""
    return {**random.choice([elastic, of_groups])(random), "managedBy": CONTROLLER}


def of_many_pods(random: Random) -> Object:
    """A job of so many pods that their events are combined, with limits in time."""
    tasks = [task("w", random.randrange(15, 28)), task("v", random.randrange(1, 4))]
    spec: Object = {"tasks": tasks, "backoffLimit": 90}
    if random.random() < 0.5:
        spec["cleanPodPolicy"] = random.choice(["All", "None", "Running"])
    if random.random() < 0.3:
        spec["ttlSecondsAfterFinished"] = 20
    if random.random() < 0.3:
        tasks[0]["maxUnavailable"] = 2
    if random.random() < 0.3:
        spec["activeDeadlineSeconds"] = random.choice([20, 60])
    if random.random() < 0.3:
        spec["pendingTimeoutSeconds"] = random.choice([20, 60])
    return spec
