"""Pods that fail are replaced and counted, each failure once, until no restart is left."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from di_cluster.release import Release
from tests.e2e.deployments import bring_back, take_away
from tests.e2e.jobs import job, task
from tests.e2e.kubectl import Kubectl
from tests.e2e.pods import (
    OBEY,
    condition,
    pods_of,
    tell_to_exit,
    wait_for_event,
    wait_for_phase,
    wait_for_pods,
)
from tests.waiting import wait_until

NAMES = ("x-learner-0", "x-collector-0", "x-collector-1")


@pytest.fixture
def running(kubectl: Kubectl, namespace: str, python_image: str) -> str:
    """A running job of a learner and two collectors that obey; returns its namespace."""
    kubectl.apply(
        job(
            "x",
            namespace=namespace,
            tasks=[
                task("learner", image=python_image, program=OBEY),
                task("collector", image=python_image, program=OBEY, replicas=2),
            ],
        )
    )
    wait_for_pods(kubectl, "x", *NAMES, namespace=namespace)
    return namespace


@pytest.fixture
def absence(kubectl: Kubectl, release: Release, running: str) -> Iterator[None]:
    """No operator runs, until `bring_back`; it is back after the test."""
    try:
        take_away(kubectl, release, "operator")
        yield
    finally:
        bring_back(kubectl, release, "operator")


def test_a_failed_pod_is_replaced_and_counted_once(kubectl: Kubectl, running: str) -> None:
    before = pods_of(kubectl, "x", namespace=running)
    tell_to_exit(kubectl, "x-collector-0", 7, namespace=running)
    wait_until(
        lambda: kubectl.get("dijob", "x", namespace=running)["status"].get("restarts", 0) > 0
    )
    after = wait_for_pods(kubectl, "x", *NAMES, namespace=running)

    failed = before["x-collector-0"]
    assert after["x-collector-0"].uid != failed.uid
    assert after["x-collector-0"].rank == failed.rank
    for other in ("x-learner-0", "x-collector-1"):
        assert after[other].uid == before[other].uid
    found = kubectl.get("dijob", "x", namespace=running)
    assert found["status"]["restarts"] == 1
    assert found["status"].get("reschedules", 0) == 0
    message = condition(found, "Restarting")["message"]
    assert "restart 1 of task collector" in message
    assert "pod x-collector-0 failed first: exit code 7" in message
    assert len(wait_for_event(kubectl, "x", message, namespace=running)) == 1


@pytest.mark.usefixtures("absence")
def test_failures_that_nobody_watched_are_one_restart(
    kubectl: Kubectl, release: Release, running: str
) -> None:
    before = pods_of(kubectl, "x", namespace=running)
    failed = ("x-collector-0", "x-collector-1")
    for pod in failed:
        tell_to_exit(kubectl, pod, 1, namespace=running)
    wait_until(
        lambda: all(
            pods_of(kubectl, "x", namespace=running)[pod].phase == "Failed" for pod in failed
        ),
        every=0.3,
    )
    bring_back(kubectl, release, "operator")
    wait_until(
        lambda: kubectl.get("dijob", "x", namespace=running)["status"].get("restarts", 0) > 0
    )
    after = wait_for_pods(kubectl, "x", *NAMES, namespace=running)
    assert kubectl.get("dijob", "x", namespace=running)["status"]["restarts"] == 1
    assert after["x-learner-0"].uid == before["x-learner-0"].uid
    assert {after[pod].uid for pod in failed}.isdisjoint({before[pod].uid for pod in failed})


@pytest.mark.proves("README.md#when-something-is-wrong/the-job-is-failed")
def test_a_job_fails_when_its_restarts_are_spent(
    kubectl: Kubectl, namespace: str, python_image: str
) -> None:
    kubectl.apply(
        job(
            "x",
            namespace=namespace,
            backoffLimit=1,
            tasks=[
                task("learner", image=python_image, program=OBEY),
                task("none", name="judge", image=python_image, program="raise SystemExit(3)"),
            ],
        )
    )
    found = wait_for_phase(kubectl, "x", "Failed", namespace=namespace)
    assert found["status"]["restarts"] == 1
    message = condition(found, "Failed")["message"]
    assert "1 restart of 1 used" in message
    assert "pod x-judge-0 failed first: exit code 3" in message
    kubectl(
        *("--namespace", namespace, "wait", "dijob/x"),
        *("--for=condition=Failed", "--timeout=5s"),
    )
