"""What becomes of pods and objects when a job ends or is deleted."""

from __future__ import annotations

import pytest
import yaml

from di_api.names import LABEL_JOB, service_name
from tests.e2e.examples import EXAMPLES, wait_for_end, with_image
from tests.e2e.jobs import job, sleep, task
from tests.e2e.kubectl import Kubectl
from tests.e2e.pods import (
    OBEY,
    condition,
    events_of,
    pods_of,
    tell_to_exit,
    wait_for_event,
    wait_for_phase,
    wait_for_pods,
)
from tests.waiting import wait_until


def services(kubectl: Kubectl, namespace: str) -> list[str]:
    return [s["metadata"]["name"] for s in kubectl.items("services", namespace=namespace)]


def run_until_the_learner_fails(
    kubectl: Kubectl, namespace: str, image: str, *, policy: str
) -> None:
    """Run a job that is Failed because its learner said last words and ended with code 3."""
    kubectl.apply(
        job(
            "x",
            namespace=namespace,
            backoffLimit=0,
            cleanPodPolicy=policy,
            tasks=[
                task("learner", image=image, program=OBEY),
                task("collector", image=image, program=sleep(3600)),
            ],
        )
    )
    wait_for_pods(kubectl, "x", "x-learner-0", "x-collector-0", namespace=namespace)
    assert services(kubectl, namespace) == [service_name("x")]
    tell_to_exit(kubectl, "x-learner-0", 3, namespace=namespace)
    failed = wait_for_phase(kubectl, "x", "Failed", namespace=namespace)
    assert "x-learner-0 failed first: exit code 3" in condition(failed, "Failed")["message"]


@pytest.mark.proves("events.md#of-its-life/podsdeleted")
@pytest.mark.parametrize(
    ("policy", "left"),
    [
        ("Running", {"x-learner-0": "Failed"}),
        pytest.param("All", {}, marks=pytest.mark.extended),
        pytest.param(
            "None",
            {"x-learner-0": "Failed", "x-collector-0": "Running"},
            marks=pytest.mark.extended,
        ),
    ],
)
def test_pods_of_an_ended_job_go_by_its_policy(
    kubectl: Kubectl, namespace: str, python_image: str, policy: str, left: dict[str, str]
) -> None:
    run_until_the_learner_fails(kubectl, namespace, python_image, policy=policy)

    def remaining() -> dict[str, str]:
        pods = pods_of(kubectl, "x", namespace=namespace)
        return {name: pod.phase for name, pod in pods.items()}

    # The Service goes in the same step as the pods.
    wait_until(lambda: not services(kubectl, namespace))
    wait_until(lambda: remaining() == left, what=f"only {left} are left")
    assert not any(pod.is_leaving for pod in pods_of(kubectl, "x", namespace=namespace).values())
    if "x-learner-0" in left:
        assert "last words" in kubectl.logs("x-learner-0", namespace=namespace)
    if policy == "None":
        assert not any("PodsDeleted" in e for e in events_of(kubectl, "x", namespace=namespace))
    else:
        assert len(wait_for_event(kubectl, "x", "PodsDeleted", namespace=namespace)) == 1
    # The status tells how it was at the end.
    status = kubectl.get("dijob", "x", namespace=namespace)["status"]
    assert status["taskStatus"] == {"learner": {"Failed": 1}, "collector": {}}
    assert status.get("readyReplicas", 0) == 0


def test_what_a_job_brings_along_is_there_for_its_pods_and_stays_with_the_job(
    kubectl: Kubectl, namespace: str, python_image: str
) -> None:
    brings = yaml.safe_load((EXAMPLES / "roles" / "companions.yaml").read_text())
    kubectl.apply(with_image(brings, image=python_image, namespace=namespace))
    wait_for_end(kubectl, "configured", namespace=namespace)
    said = kubectl.logs("configured-learner-0", namespace=namespace)
    assert said.strip() == "run configured with seed 7"

    mine = f"--selector={LABEL_JOB}=configured"
    wait_until(lambda: not services(kubectl, namespace))
    (config,) = kubectl.items("configmaps", mine, namespace=namespace)
    assert config["metadata"]["name"] == "configured-config"
    kubectl("--namespace", namespace, "delete", "dijob", "configured", "--timeout=240s")
    wait_until(lambda: not kubectl.items("configmaps", mine, namespace=namespace))


def test_everything_of_a_deleted_job_goes_with_it(
    kubectl: Kubectl, namespace: str, python_image: str
) -> None:
    kubectl.apply(
        job(
            "x",
            namespace=namespace,
            tasks=[task("learner", image=python_image, program=sleep(3600), replicas=2)],
        )
    )
    wait_for_pods(kubectl, "x", "x-learner-0", "x-learner-1", namespace=namespace)
    kubectl("--namespace", namespace, "delete", "dijob", "x", "--timeout=240s")
    wait_until(
        lambda: not pods_of(kubectl, "x", namespace=namespace) and not services(kubectl, namespace),
    )
