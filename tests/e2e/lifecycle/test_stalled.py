"""Pods that show nothing wrong and do not go on, on a real node: the job and `di why` name them.

All jobs are there from the beginning, so that the minute after which they are reported passes once.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from di_api.explain import Cause
from di_cli.main import run
from di_cluster.release import Release
from tests.e2e.conftest import fresh_namespace
from tests.e2e.jobs import job, sleep, task
from tests.e2e.kubectl import Kubectl, Object
from tests.e2e.pods import condition, pods_of, wait_for_phase
from tests.waiting import SLOW_SECONDS, wait_until

# The decisions are proved in tests/unit/lifecycle; here the kubelet and the scheduler are real.
pytestmark = pytest.mark.extended

HOLD = "example.org/hold"
STALLED: dict[str, tuple[str, str, Cause]] = {
    "nosched": (
        "Unschedulable",
        "its scheduler, unknown, has not considered it",
        Cause.NO_SCHEDULER,
    ),
    "noclaim": (
        "Unschedulable",
        "the ResourceClaims that it needs have to exist: not-there",
        Cause.RESOURCE_CLAIM,
    ),
    "slowinit": ("InitContainerRunning", "init container fetch has been running", Cause.STARTING),
}
"""By job the reason of its phase, a part of the message, and the cause that `di why` finds."""


def edited(name: str, learner: Object) -> Object:
    spec = learner["template"]["spec"]
    main = spec["containers"][0]
    match name:
        case "nosched":
            spec["schedulerName"] = "unknown"
        case "noclaim":
            spec["resourceClaims"] = [{"name": "gpu", "resourceClaimName": "not-there"}]
            main["resources"]["claims"] = [{"name": "gpu"}]
        case _:
            spec["initContainers"] = [{**main, "name": "fetch"}]
    return learner


@pytest.fixture(scope="module")
def jobs(kubectl: Kubectl, release: Release, python_image: str) -> Iterator[str]:
    """The namespace of all jobs, which are made at once."""
    forever = sleep(3600)

    def learner(**fields: Any) -> Object:
        return task("learner", image=python_image, program=forever, **fields)

    evaluator = task("evaluator", image=python_image, program="")
    policy = {"tasks": ["learner", "evaluator"]}
    with fresh_namespace(kubectl) as namespace:
        made = [
            *(job(name, namespace=namespace, tasks=[edited(name, learner())]) for name in STALLED),
            job("held", namespace=namespace, tasks=[learner(replicas=2)]),
            job("once", namespace=namespace, tasks=[learner(), evaluator], successPolicy=policy),
            job("orphan", namespace=namespace, tasks=[learner()]),
        ]
        kubectl.apply({"apiVersion": "v1", "kind": "List", "items": made})
        yield namespace


def why(
    name: str,
    namespace: str,
    capsys: pytest.CaptureFixture[str],
) -> Object:
    capsys.readouterr()
    run(["why", name, "--namespace", namespace, "--json"])
    found: Object = json.loads(capsys.readouterr().out)
    return found


@pytest.mark.usefixtures("shell")
def test_a_pod_that_a_finalizer_holds_is_named_until_it_is_released(
    kubectl: Kubectl,
    jobs: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    wait_for_phase(kubectl, "held", "Running", namespace=jobs)
    pod = "held-learner-0"
    patch = {"metadata": {"finalizers": [HOLD]}}
    edit = ("--namespace", jobs, "patch", "pod", pod, "--type", "merge", "--patch")
    kubectl(*edit, json.dumps(patch))
    kubectl("--namespace", jobs, "delete", "pod", pod, "--wait=false")

    def is_named() -> bool:
        told = condition(kubectl.get("dijob", "held", namespace=jobs), "PodNotEnding")
        assert (told["status"], told["reason"]) == ("True", "Finalizer")
        return pod in told["message"] and HOLD in told["message"]

    wait_until(is_named, SLOW_SECONDS, what="the pod and its finalizer to be named")
    assert why("held", jobs, capsys)["cause"] == Cause.POD_NOT_ENDING
    kubectl(*edit, json.dumps({"metadata": {"finalizers": None}}))
    status = wait_for_phase(kubectl, "held", "Running", namespace=jobs)
    assert condition(status, "PodNotEnding")["status"] == "False"


def test_a_completed_evaluator_that_is_evicted_does_not_run_again(
    kubectl: Kubectl, jobs: str
) -> None:
    def is_written() -> bool:
        status = kubectl.get("dijob", "once", namespace=jobs)["status"]
        return bool(status["completedIndexes"] == {"evaluator": "0"})

    wait_until(is_written, what="the index of the evaluator to be written")
    pod = {"name": "once-evaluator-0", "namespace": jobs}
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": pod}
    path = f"/api/v1/namespaces/{jobs}/pods/once-evaluator-0/eviction"
    kubectl("create", "--raw", path, "--filename", "-", stdin=json.dumps(eviction))
    status = wait_for_phase(kubectl, "once", "Running", namespace=jobs)["status"]
    assert status["taskStatus"]["evaluator"] == {"Succeeded": 1}
    assert (status["restarts"], status["reschedules"]) == (0, 0)
    assert [*pods_of(kubectl, "once", namespace=jobs)] == ["once-learner-0"]


def test_a_job_made_again_waits_for_the_pods_that_were_orphaned(
    kubectl: Kubectl, jobs: str
) -> None:
    body = wait_for_phase(kubectl, "orphan", "Running", namespace=jobs)
    kubectl("--namespace", jobs, "delete", "dijob", "orphan", "--cascade=orphan")
    metadata = {key: body["metadata"][key] for key in ("name", "namespace")}
    kubectl.apply(
        {key: body[key] for key in ("apiVersion", "kind", "spec")} | {"metadata": metadata}
    )

    def waits() -> bool:
        found = kubectl.get("dijob", "orphan", namespace=jobs)
        assert found["status"]["phase"] == "Pending"
        return bool(condition(found, "Pending")["reason"] == "PodNameConflict")

    wait_until(waits, what="the job to wait for the names")
    kubectl("--namespace", jobs, "delete", "service", "di-orphan")
    kubectl("--namespace", jobs, "delete", "pod", "orphan-learner-0")
    wait_for_phase(kubectl, "orphan", "Running", namespace=jobs)


@pytest.mark.proves("runbook.md#when-something-is-wrong/the-job-is-starting-or-running-and-some")
@pytest.mark.parametrize("name", STALLED)
@pytest.mark.usefixtures("shell")
def test_a_pod_that_does_not_go_on_is_named_after_a_minute(
    kubectl: Kubectl,
    jobs: str,
    name: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    reason, part, cause = STALLED[name]

    def is_named() -> bool:
        told = condition(kubectl.get("dijob", name, namespace=jobs), "Starting")
        assert (told["status"], told["reason"]) == ("True", reason), told
        return f"{name}-learner-0 first" in told["message"] and part in told["message"]

    wait_until(is_named, SLOW_SECONDS, what=f"{name} to be {reason}: {part}")
    assert why(name, jobs, capsys)["cause"] == cause
