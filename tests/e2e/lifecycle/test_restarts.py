"""Pods that fail are replaced and counted, each failure once, until no restart is left."""

from __future__ import annotations

import pytest

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


@pytest.mark.proves("runbook.md#when-something-is-wrong/the-job-is-failed")
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
