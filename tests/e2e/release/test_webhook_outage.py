"""While no webhook answers nothing unchecked gets in, and what runs goes on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from di_cluster.errors import CommandFailed
from di_cluster.release import Release
from tests.e2e.deployments import bring_back, is_admitted, take_away
from tests.e2e.jobs import job, sleep, task
from tests.e2e.kubectl import Kubectl
from tests.e2e.pods import ASK, OBEY, run_in_pod, tell_to_exit, wait_for_phase, wait_for_pods
from tests.waiting import wait_until

VALIDATING = "validate.dijobs.diengine.opendilab.org"
NAMES = ("x-learner-0", "x-collector-0")
SCALED = (*NAMES, "x-collector-1")

PROFILE = ASK.format(path="/profilings", body=b'{"loss": 1}')
GROW = ASK.format(path="/replicas", body=b'{"task": "collector", "replicas": 1}')


@pytest.fixture
def running(kubectl: Kubectl, namespace: str, python_image: str) -> str:
    """A running job of a learner and a collector that obey; returns its namespace."""
    kubectl.apply(
        job(
            "x",
            namespace=namespace,
            tasks=[
                task("learner", image=python_image, program=OBEY),
                task("collector", image=python_image, program=OBEY),
            ],
        )
    )
    wait_for_pods(kubectl, "x", *NAMES, namespace=namespace)
    return namespace


@pytest.fixture
def outage(kubectl: Kubectl, release: Release, running: str) -> Iterator[None]:
    """No webhook runs, until `bring_back`; a change of the job is still to be carried out.

    The operator is away while the change is made, or it would be faster than the outage.
    """
    try:
        take_away(kubectl, release, "operator")
        kubectl(
            *("--namespace", running, "patch", "dijob", "x", "--type=json"),
            '--patch=[{"op": "replace", "path": "/spec/tasks/1/replicas", "value": 2}]',
        )
        take_away(kubectl, release, "webhook")
        bring_back(kubectl, release, "operator")
        yield
    finally:
        bring_back(kubectl, release, "operator")
        bring_back(kubectl, release, "webhook")


def replicas(kubectl: Kubectl, namespace: str) -> list[int]:
    tasks = kubectl.get("dijob", "x", namespace=namespace)["spec"]["tasks"]
    return [task["replicas"] for task in tasks]


@pytest.mark.usefixtures("outage")
@pytest.mark.proves("runbook.md#when-something-is-wrong/creating-a-job-fails-with-failed-calling")
def test_an_outage_of_the_webhook(
    kubectl: Kubectl, release: Release, running: str, python_image: str
) -> None:
    # What was asked for before the outage is carried out in it.
    before = wait_for_pods(kubectl, "x", *SCALED, namespace=running)

    new = job(
        "new",
        namespace=running,
        tasks=[task("learner", image=python_image, program=sleep(1))],
    )
    # Nothing is let in unchecked, and the refusal says at once who is missing.
    with pytest.raises(CommandFailed, match=f'failed calling webhook "{VALIDATING}"'):
        kubectl.apply(new)
    assert [found["metadata"]["name"] for found in kubectl.items("dijobs", namespace=running)] == [
        "x"
    ]
    # A change of the spec is a change that nobody could check; the caller is told to come back.
    assert run_in_pod(kubectl, "x-learner-0", GROW, namespace=running) == 503
    assert replicas(kubectl, running) == [1, 2]

    # What is in the status needs no check: reports arrive, and a pod that fails is replaced.
    assert run_in_pod(kubectl, "x-learner-0", PROFILE, namespace=running) == 200
    tell_to_exit(kubectl, "x-collector-0", 1, namespace=running)
    wait_until(
        lambda: kubectl.get("dijob", "x", namespace=running)["status"].get("restarts", 0) == 1
    )
    after = wait_for_pods(kubectl, "x", *SCALED, namespace=running)
    assert after["x-learner-0"].uid == before["x-learner-0"].uid
    assert after["x-collector-0"].uid != before["x-collector-0"].uid

    bring_back(kubectl, release, "webhook")
    # A Service leads to a pod a moment after the pod is ready, when each node has heard of it.
    wait_until(lambda: is_admitted(kubectl, new))
    kubectl.apply(new)
    assert run_in_pod(kubectl, "x-learner-0", GROW, namespace=running) == 200
    grown = wait_for_pods(kubectl, "x", *SCALED, "x-collector-2", namespace=running)
    for pod in grown:
        tell_to_exit(kubectl, pod, 0, namespace=running)
    found = wait_for_phase(kubectl, "x", "Succeeded", namespace=running)
    assert found["status"]["profilings"] == {"loss": 1}
