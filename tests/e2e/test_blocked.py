"""Pods that cannot run, on a real node: the job says why, as soon as its pods do, and until then.

The rows of "When something is wrong" in README.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from di_api.names import DI_CONTAINER
from tests.e2e.jobs import coordinated, job, sleep, task, template
from tests.e2e.kubectl import Kubectl, Object
from tests.e2e.pods import wait_for_event, wait_for_pods
from tests.waiting import wait_until

# Nobody listens there: the pull is refused at once.
ABSENT = "127.0.0.1:1/none:1"
Edit = Callable[[Object], object]


def _container(**fields: Any) -> Edit:
    return lambda spec: spec["containers"][0].update(fields)


def _from_config_map(spec: Object) -> None:
    reference = {"configMapKeyRef": {"name": "late", "key": "level"}}
    spec["containers"][0]["env"] = [{"name": "LEVEL", "valueFrom": reference}]


def _init_container(spec: Object) -> None:
    main = spec["containers"][0]
    absent = {**main, "name": "fetch", "image": ABSENT, "imagePullPolicy": "Never"}
    spec["initContainers"] = [absent]


def _claim(spec: Object) -> None:
    spec["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": "none"}}]


def _crashing_sidecar(spec: Object) -> None:
    main = spec["containers"][0]
    spec["initContainers"] = [{**main, **CRASHES, "name": "logs", "restartPolicy": "Always"}]


CRASHES = {"command": ["python3", "-c", "raise SystemExit(7)"]}
TROUBLES: dict[str, tuple[Edit, str, str]] = {
    "pull": (_container(image=ABSENT), "ImagePullBackOff", ABSENT),
    "never": (_container(image=ABSENT, imagePullPolicy="Never"), "ErrImageNeverPull", "pull"),
    "init": (_init_container, "ErrImageNeverPull", "container fetch"),
    "config": (_from_config_map, "CreateContainerConfigError", 'configmap "late" not found'),
    "crash": (_crashing_sidecar, "CrashLoopBackOff", "container logs ended with exit code 7"),
    "node": (
        lambda spec: spec.update(nodeSelector={"no": "such-node"}),
        "Unschedulable",
        "didn't match Pod's node affinity/selector",
    ),
    "claim": (_claim, "VolumeNotBound", 'persistentvolumeclaim "none" not found'),
}
"""What is done to the template of the job of that name, the reason, and a part of the message."""


@pytest.fixture
def jobs(kubectl: Kubectl, namespace: str, python_image: str) -> tuple[str, ...]:
    """A job of each trouble, all at once, and a coordinator that crashes again and again."""
    for name, (edit, _, _) in TROUBLES.items():
        learner = task("learner", image=python_image, program=sleep(3600), replicas=2)
        edit(learner["template"]["spec"])
        kubectl.apply(job(name, namespace=namespace, tasks=[learner]))
    crashing = template(image=python_image, program="raise SystemExit(7)")
    crashing["spec"]["restartPolicy"] = "Always"
    kubectl.apply(coordinated("older", namespace=namespace, templates={"coordinator": crashing}))
    return tuple(TROUBLES)


def test_a_job_whose_pods_cannot_run_says_why_until_they_can(
    kubectl: Kubectl, namespace: str, jobs: tuple[str, ...]
) -> None:
    for name in jobs:
        _, reason, part = TROUBLES[name]
        message = _wait_for(kubectl, name, reason, namespace)
        assert "of 2 pods cannot run, " in message
        assert part in message
        (event, *_) = wait_for_event(kubectl, name, f"{reason}: ", namespace=namespace)
        assert part in event
    message = _wait_for(kubectl, "older", "CrashLoopBackOff", namespace)
    assert f"container {DI_CONTAINER} ended with exit code 7" in message
    columns = _columns(kubectl, namespace)
    steady = [name for name in jobs if name != "crash"]
    assert [columns[name] for name in steady] == [TROUBLES[name][1] for name in steady]

    settings = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"level": "1"}}
    kubectl.apply({**settings, "metadata": {"name": "late", "namespace": namespace}})
    names = ("config-learner-0", "config-learner-1")
    wait_for_pods(kubectl, "config", *names, namespace=namespace)
    assert _wait_for(kubectl, "config", "JobRunning", namespace) == "2 pods ready"


def _wait_for(kubectl: Kubectl, name: str, reason: str, namespace: str) -> str:
    """Wait until the job's phase has that reason; the message that goes with it."""

    def said() -> str:
        status = kubectl.get("dijob", name, namespace=namespace)["status"]
        found = [one for one in status["conditions"] if one["status"] == "True"]
        assert [one["reason"] for one in found] == [reason], found
        message: str = found[0]["message"]
        return message

    return wait_until(said, 120, what=f"{name} is {reason}", every=0.3)


def _columns(kubectl: Kubectl, namespace: str) -> dict[str, str]:
    """What `kubectl get dijobs -o wide` shows in its column REASON."""
    lines = kubectl("--namespace", namespace, "get", "dijobs", "--output=wide").splitlines()
    at = lines[0].index("REASON")
    return {line.split()[0]: line[at:].split()[0] for line in lines[1:]}
