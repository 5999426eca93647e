"""Pods that cannot run, on a real node: the job says why, as soon as its pods do, and until then.

The job of each trouble is there from the beginning, so that all of them are waited for together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from di_api.names import DI_CONTAINER
from di_cluster.release import Release
from tests.e2e.conftest import fresh_namespace
from tests.e2e.examples import job_of
from tests.e2e.jobs import coordinated, job, sleep, task, template
from tests.e2e.kubectl import Kubectl, Object
from tests.e2e.pods import condition, pods_of, wait_for_event, wait_for_phase, wait_for_pods
from tests.waiting import SLOW_SECONDS, wait_until

# Nobody listens there: the pull is refused at once.
ABSENT = "127.0.0.1:1/none:1"
LATE = "late"
"""A ConfigMap that is made when all have complained about it."""
GPU = "nvidia.com/gpu"
Edit = Callable[[Object], object]


def _container(**fields: Any) -> Edit:
    return lambda spec: spec["containers"][0].update(fields)


def _spec(**fields: Any) -> Edit:
    return lambda spec: spec.update(fields)


def _from_config_map(spec: Object) -> None:
    reference = {"configMapKeyRef": {"name": LATE, "key": "level"}}
    spec["containers"][0]["env"] = [{"name": "LEVEL", "valueFrom": reference}]


def _init_container(spec: Object) -> None:
    main = spec["containers"][0]
    absent = {**main, "name": "fetch", "image": ABSENT, "imagePullPolicy": "Never"}
    spec["initContainers"] = [absent]


def _crashing_sidecar(spec: Object) -> None:
    main = spec["containers"][0]
    spec["initContainers"] = [{**main, **CRASHES, "name": "logs", "restartPolicy": "Always"}]


def _ending_sidecar(spec: Object) -> None:
    main = spec["containers"][0]
    ends = ["python3", "-c", "raise SystemExit(7)"]
    spec["containers"].insert(0, {**main, "name": "shipper", "command": ends})


CRASHES = {"command": ["python3", "-c", "raise SystemExit(7)"]}
NO_PROFILE = {"type": "Localhost", "localhostProfile": "none-such.json"}
TROUBLES: dict[str, tuple[Edit, str, str]] = {
    "pull": (_container(image=ABSENT), "ImagePullBackOff", ABSENT),
    "never": (_container(image=ABSENT, imagePullPolicy="Never"), "ErrImageNeverPull", "pull"),
    "name": (_container(image="No/Name"), "InvalidImageName", "No/Name"),
    "init": (_init_container, "ErrImageNeverPull", "container fetch"),
    "config": (_from_config_map, "CreateContainerConfigError", f'configmap "{LATE}" not found'),
    "other": (
        _container(securityContext={"seccompProfile": NO_PROFILE}),
        "ContainerWaiting",
        "CreateContainerError",
    ),
    "crash": (_crashing_sidecar, "CrashLoopBackOff", "container logs ended with exit code 7"),
    "beside": (
        _ending_sidecar,
        "SidecarEnded",
        "container shipper ended with exit code 7, the main container runs on",
    ),
    "absent": (_spec(nodeName="no-such-node"), "NodeNotFound", "node no-such-node, which does not"),
    "node": (
        _spec(nodeSelector={"no": "such-node"}),
        "Unschedulable",
        "didn't match Pod's node affinity/selector",
    ),
    "gate": (_spec(schedulingGates=[{"name": "example.org/open"}]), "SchedulingGated", "gate"),
    "claim": (
        _spec(volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "none"}}]),
        "VolumeNotBound",
        'persistentvolumeclaim "none" not found',
    ),
}
"""What is done to the template of the job of that name, the reason, and a part of the message."""
LASTS = ("ContainerCreating", "its volumes or its network ")
"""The reason where a volume is not there, and a part of the message, when it has lasted."""
OLDER = "older"
WAITS = {
    "quota": ("QuotaExceeded", f"requests.{GPU}"),
    "suspended": ("JobSuspended", "suspend"),
    "order": ("JobPending", "task collector waits for task learner"),
}
"""The reason why the job of that name is Pending, and a part of the message."""
ENDS = {
    "pending": (
        "PendingTimeout",
        "task learner has 0 of at least 1 pod ready for 10 seconds; 1 of 1 pod cannot run, "
        "pending-learner-0 first: ",
    ),
    "deadline": ("DeadlineExceeded", "task evaluator"),
}
"""The reason why the example of that name is Failed, and a part of the message."""


@pytest.fixture(scope="module")
def jobs(kubectl: Kubectl, release: Release, python_image: str) -> Iterator[str]:
    """A job of each trouble, all at once; returns their namespace."""
    with fresh_namespace(kubectl) as namespace:
        metadata = {"name": "none", "namespace": namespace}
        hard = {"hard": {f"requests.{GPU}": "0"}}
        kubectl.apply(
            {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": hard}
        )
        wait_until(
            lambda: kubectl.get("resourcequota", "none", namespace=namespace)["status"]["hard"],
            what="the quota to be known",
        )
        jobs = [
            *_blocked(namespace, python_image),
            *_waiting(namespace, python_image),
            *(job_of(name, image=python_image, namespace=namespace) for name in ENDS),
        ]
        kubectl.apply({"apiVersion": "v1", "kind": "List", "items": jobs})
        yield namespace


def _blocked(namespace: str, image: str) -> Iterator[Object]:
    for name, (edit, _, _) in TROUBLES.items():
        learner = task("learner", image=image, program=sleep(3600), replicas=2)
        edit(learner["template"]["spec"])
        yield job(name, namespace=namespace, tasks=[learner])
    crashing = template(image=image, program="raise SystemExit(7)")
    crashing["spec"]["restartPolicy"] = "Always"
    yield coordinated(OLDER, namespace=namespace, templates={"coordinator": crashing})


def _waiting(namespace: str, image: str) -> Iterator[Object]:
    greedy = task("learner", image=image, program=sleep(3600))
    greedy["template"]["spec"]["containers"][0]["resources"]["limits"] = {GPU: "1"}
    yield job("quota", namespace=namespace, tasks=[greedy])
    learner = task("learner", image=image, program=sleep(3600))
    yield job("suspended", namespace=namespace, tasks=[learner], suspend=True)
    unready = task("learner", image=image, program=sleep(3600))
    unready["template"]["spec"]["containers"][0]["readinessProbe"] = {"exec": CRASHES}
    collector = task("collector", image=image, program=sleep(3600), dependsOn=["learner"])
    yield job("order", namespace=namespace, tasks=[unready, collector])


@pytest.mark.parametrize("name", ENDS)
@pytest.mark.proves("runbook.md#when-something-is-wrong/the-job-is-failed")
def test_an_example_that_runs_out_of_time_says_of_what(
    kubectl: Kubectl, jobs: str, name: str
) -> None:
    reason, part = ENDS[name]
    failed = condition(wait_for_phase(kubectl, name, "Failed", namespace=jobs), "Failed")
    assert failed["reason"] == reason
    assert part in failed["message"]


@pytest.mark.parametrize("name", WAITS)
@pytest.mark.proves("runbook.md#when-something-is-wrong/the-job-stays-pending")
def test_a_job_that_waits_says_for_what(kubectl: Kubectl, jobs: str, name: str) -> None:
    reason, part = WAITS[name]
    _wait_for(kubectl, name, reason, part, namespace=jobs)
    assert kubectl.phase(name, namespace=jobs) == "Pending"
    assert f"{name}-collector-0" not in pods_of(kubectl, name, namespace=jobs)


@pytest.mark.parametrize("name", TROUBLES)
@pytest.mark.proves(
    "runbook.md#when-something-is-wrong/the-job-stays-pending",
    "runbook.md#when-something-is-wrong/the-job-is-starting-or-running-and-some",
)
def test_a_job_whose_pods_cannot_run_says_why(kubectl: Kubectl, jobs: str, name: str) -> None:
    _, reason, part = TROUBLES[name]
    _says(kubectl, name, reason, part, namespace=jobs)


@pytest.mark.proves("runbook.md#when-something-is-wrong/the-job-is-starting-or-running-and-some")
def test_a_coordinator_that_crashes_again_and_again_is_told_of(kubectl: Kubectl, jobs: str) -> None:
    part = f"container {DI_CONTAINER} ended with exit code 7"
    _wait_for(kubectl, OLDER, "CrashLoopBackOff", part, namespace=jobs)


def test_what_is_solved_is_told_no_more(kubectl: Kubectl, jobs: str) -> None:
    # That of a container that starts again and again changes with it.
    steady = [name for name in TROUBLES if name != "crash"]
    columns = _columns(kubectl, jobs)
    assert [columns[name] for name in steady] == [TROUBLES[name][1] for name in steady]

    settings = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"level": "1"}}
    kubectl.apply({**settings, "metadata": {"name": LATE, "namespace": jobs}})
    names = ("config-learner-0", "config-learner-1")
    wait_for_pods(kubectl, "config", *names, namespace=jobs)
    _wait_for(kubectl, "config", "JobRunning", "2 pods ready", namespace=jobs)


@pytest.mark.proves("runbook.md#when-something-is-wrong/the-job-is-starting-or-running-and-some")
def test_what_a_node_does_not_make_ready_is_told_of_when_it_lasts(
    kubectl: Kubectl, unmounted: str
) -> None:
    _says(kubectl, "unmounted", *LASTS, namespace=unmounted)


def _says(kubectl: Kubectl, name: str, reason: str, part: str, *, namespace: str) -> None:
    """Wait until a job says what its pods say, and an event as well."""
    message = _wait_for(kubectl, name, reason, part, namespace=namespace)
    assert "of 2 pods " in message
    (event, *_) = wait_for_event(kubectl, name, f"{reason}: ", namespace=namespace)
    assert "of 2 pods " in event


def _wait_for(kubectl: Kubectl, name: str, reason: str, part: str, *, namespace: str) -> str:
    """Wait until the job's phase has that reason and a message with that part; the message.

    The kubelet may give another cause first: on a busy node a ConfigMap is "timed out waiting for
    the condition" before it is "not found".
    """

    def said() -> str:
        status = kubectl.get("dijob", name, namespace=namespace)["status"]
        found = condition({"status": status}, status["phase"])
        assert found["reason"] == reason, status["conditions"]
        message: str = found["message"]
        assert part in message
        return message

    return wait_until(said, SLOW_SECONDS, what=f"{name} is {reason}: {part}")


def _columns(kubectl: Kubectl, namespace: str) -> dict[str, str]:
    """What `kubectl get dijobs -o wide` shows in its column REASON."""
    lines = kubectl("--namespace", namespace, "get", "dijobs", "--output=wide").splitlines()
    at = lines[0].index("REASON")
    return {line.split()[0]: line[at:].split()[0] for line in lines[1:]}
