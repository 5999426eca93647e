"""What a real kubelet does to pods: told apart by what ran, and the main container decides.

All jobs are there from the beginning, so that they are waited for together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from di_api.names import DI_CONTAINER
from di_cluster.release import Release
from tests.e2e.conftest import fresh_namespace
from tests.e2e.jobs import job, sleep, task
from tests.e2e.kubectl import Kubectl, Object
from tests.e2e.pods import condition, pods_of, wait_for_event, wait_for_phase
from tests.waiting import wait_until

FILL = "import time; open('/s/f', 'wb').write(bytes(200 << 20)); time.sleep(3600)"
TOO_MUCH_MEMORY = "x = bytearray(256 << 20)"


def _with(learner: Object, edit: Callable[[Object], object]) -> Object:
    edit(learner["template"]["spec"])
    return learner


@pytest.fixture(scope="module")
def jobs(kubectl: Kubectl, release: Release, python_image: str) -> Iterator[str]:
    """A job of each case, all at once; returns their namespace."""
    (node,) = (
        each["metadata"]["name"]
        for each in kubectl.items("nodes", "--selector=type!=kwok", namespace="default")
    )
    with fresh_namespace(kubectl) as namespace:
        made = _made(namespace, python_image, node)
        kubectl.apply({"apiVersion": "v1", "kind": "List", "items": [*made]})
        yield namespace


def _made(namespace: str, image: str, node: str) -> Iterator[Object]:
    def learner(program: str = sleep(3600), kind: str = "learner", **fields: Any) -> Object:
        return task(kind, image=image, program=program, **fields)

    def beside(made: Object, program: str, memory: str = "64Mi") -> Object:
        containers = made["template"]["spec"]["containers"]
        shipper = {**containers[0], "name": "shipper", "command": ["python3", "-c", program]}
        containers.append({**shipper, "resources": {"limits": {"memory": memory}}})
        return made

    def refused(spec: Object) -> None:
        spec.update(nodeName=node, nodeSelector={"not-there": "at-all"})

    def greedy(spec: Object) -> None:
        spec.update(nodeName=node)
        spec["containers"][0]["resources"] = {"requests": {"cpu": "64k"}}

    def small(spec: Object) -> None:
        spec["volumes"] = [{"name": "s", "emptyDir": {"sizeLimit": "50Mi"}}]
        spec["containers"][0]["volumeMounts"] = [{"name": "s", "mountPath": "/s"}]

    def one(name: str, *tasks: Object, **spec: Any) -> Object:
        made: Object = job(name, namespace=namespace, tasks=tasks, **spec)
        return made

    yield one("rejected", _with(learner(), refused), backoffLimit=2)
    yield one("too-large", _with(learner(), greedy), backoffLimit=2)
    yield one("timed-out", _with(learner(), refused), pendingTimeoutSeconds=20)
    filling = _with(learner(FILL, "collector", backoffLimit=1), small)
    yield one("over-disk", learner(), filling)
    late = _with(learner(), lambda spec: spec.update(activeDeadlineSeconds=5))
    yield one("pod-deadline", late, backoffLimit=0)
    fails = beside(learner("import time; time.sleep(5); raise SystemExit(3)"), sleep(3600))
    yield one("main-fails", fails, learner(kind="collector"), backoffLimit=1)
    ends = beside(learner(sleep(5)), sleep(3600))
    yield one("main-ends", ends, learner(kind="collector"), backoffLimit=1)
    yield one("sidecar", beside(learner(), TOO_MUCH_MEMORY, "24Mi"))


@pytest.mark.parametrize(
    ("name", "words"), [("rejected", "NodeAffinity"), ("too-large", "OutOfcpu")]
)
@pytest.mark.proves("lifecycle.md#which-pods-count-as-failed")
def test_a_pod_that_its_kubelet_refuses_is_rescheduled(
    kubectl: Kubectl, jobs: str, name: str, words: str
) -> None:
    def refused_again() -> Object:
        found = kubectl.get("dijob", name, namespace=jobs)
        assert found["status"].get("reschedules", 0) >= 3, found["status"]
        told = condition(found, "Rescheduling")
        assert told["status"] == "True"
        assert "is created again after" in told["message"]
        return found

    found = wait_until(refused_again, what=f"{name} to be refused again and again")
    told = condition(found, "Rescheduling")
    assert (found["status"]["restarts"], told["reason"]) == (0, "PodRejected")
    assert f"first: {words}: " in told["message"]
    assert wait_for_event(kubectl, name, "PodRejected: ", namespace=jobs)


def test_pending_timeout_ends_a_job_that_its_kubelet_refuses(kubectl: Kubectl, jobs: str) -> None:
    found = wait_for_phase(kubectl, "timed-out", "Failed", namespace=jobs)
    assert condition(found, "Failed")["reason"] == "PendingTimeout"
    assert found["status"]["restarts"] == 0


def test_an_eviction_for_its_own_limit_counts_as_a_failure(kubectl: Kubectl, jobs: str) -> None:
    found = wait_for_phase(kubectl, "over-disk", "Failed", namespace=jobs)
    failed = condition(found, "Failed")
    assert failed["reason"] == "TaskBackoffLimit"
    assert "Evicted: Usage of EmptyDir volume" in failed["message"]
    assert found["status"]["restarts"] == 1


def test_a_pod_ended_for_its_own_deadline_is_reported_by_that(kubectl: Kubectl, jobs: str) -> None:
    found = wait_for_phase(kubectl, "pod-deadline", "Failed", namespace=jobs)
    assert "failed first: DeadlineExceeded: " in condition(found, "Failed")["message"]


def test_the_exit_of_the_main_container_fails_its_replica(kubectl: Kubectl, jobs: str) -> None:
    found = wait_for_phase(kubectl, "main-fails", "Failed", namespace=jobs)
    assert "failed first: exit code 3" in condition(found, "Failed")["message"]
    assert found["status"]["restarts"] == 1


def test_the_success_of_the_main_container_is_that_of_its_replica(
    kubectl: Kubectl, jobs: str
) -> None:
    found = wait_for_phase(kubectl, "main-ends", "Succeeded", namespace=jobs)
    assert found["status"].get("restarts", 0) == 0
    # Its sidecar would run on.
    wait_until(
        lambda: not pods_of(kubectl, "main-ends", namespace=jobs),
        what="pods whose sidecars run on to be cleaned up",
    )


def test_a_killed_sidecar_is_reported_while_the_job_runs_on(kubectl: Kubectl, jobs: str) -> None:
    def told() -> Object:
        found = kubectl.get("dijob", "sidecar", namespace=jobs)
        phase = found["status"]["phase"]
        assert condition(found, phase)["reason"] == "SidecarEnded", found["status"]["conditions"]
        return found

    found = wait_until(told, what="the killed sidecar to be reported")
    message = condition(found, found["status"]["phase"])["message"]
    assert "container shipper ended with exit code 137 (OOMKilled)" in message
    assert (found["status"].get("restarts", 0), found["status"]["readyReplicas"]) == (0, 0)
    assert DI_CONTAINER not in message
