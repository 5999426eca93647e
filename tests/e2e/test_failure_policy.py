"""What a failure policy does with real exit codes, real memory and real logs."""

from __future__ import annotations

from typing import Any

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

LEARNERS = ("x-learner-0", "x-learner-1")
GREEDY = """
import os, time
if os.environ["DI_TASK_RANK"] == "1":
    taken = bytearray(64 << 20)
    taken[::4096] = b"x" * len(taken[::4096])
time.sleep(3600)
"""
"""The second replica needs more than 64 MiB."""


def limited(memory: str, **fields: Any) -> Any:
    """A task whose container has that much memory."""
    made = task("learner", **fields)
    (container,) = made["template"]["spec"]["containers"]
    container["resources"]["limits"] = {"memory": memory}
    return made


def memory_of(kubectl: Kubectl, pod: str, namespace: str) -> tuple[str, str]:
    (container,) = kubectl.get("pod", pod, namespace=namespace)["spec"]["containers"]
    resources = container["resources"]
    return resources["requests"]["memory"], resources["limits"]["memory"]


def test_a_group_whose_member_lacks_memory_begins_anew_with_more_of_it(
    kubectl: Kubectl, namespace: str, python_image: str
) -> None:
    kubectl.apply(
        job(
            "x",
            namespace=namespace,
            tasks=[
                limited("48Mi", image=python_image, program=GREEDY, replicas=2),
                task("collector", image=python_image, program=OBEY),
            ],
        )
    )
    # The policy is what the webhook gives every new job.
    spec = kubectl.get("dijob", "x", namespace=namespace)["spec"]
    assert {"tasks": ["learner"], "action": "RestartTask"} in spec["failurePolicy"]["rules"]
    assert spec["tasks"][1]["backoffLimit"] == "Unlimited"
    wait_until(
        lambda: "restartAttempts" in kubectl.get("dijob", "x", namespace=namespace)["status"], 60
    )
    wait_for_pods(kubectl, "x", *LEARNERS, "x-collector-0", namespace=namespace)
    wait_for_phase(kubectl, "x", "Running", namespace=namespace)
    assert memory_of(kubectl, "x-learner-0", namespace) == ("16Mi", "48Mi")
    assert memory_of(kubectl, "x-learner-1", namespace) == ("96Mi", "96Mi")
    grown = "container di-container of x-learner-1: 48Mi -> 96Mi"
    assert len(wait_for_event(kubectl, "x", grown, namespace=namespace)) == 1
    found = kubectl.get("dijob", "x", namespace=namespace)
    assert found["status"]["restartAttempts"] == {"learner": 1}
    assert found["status"]["replicaFailures"]["learner"].keys() == {"1"}
    assert "exit code 137 (OOMKilled)" in condition(found, "Restarting")["message"]
    pods = kubectl.items("pods", namespace=namespace)
    attempts = {
        pod["metadata"]["name"]: pod["metadata"]["annotations"].get("diengine/restart-attempt")
        for pod in pods
    }
    assert attempts == {"x-collector-0": None, **dict.fromkeys(LEARNERS, "1")}


def test_an_exit_code_ends_the_job_and_the_message_has_the_last_lines(
    kubectl: Kubectl, namespace: str, python_image: str
) -> None:
    three = {"operator": "In", "values": [3]}
    kubectl.apply(
        job(
            "x",
            namespace=namespace,
            failurePolicy={"rules": [{"onExitCodes": three, "action": "FailJob"}]},
            tasks=[task("collector", image=python_image, program=OBEY)],
        )
    )
    wait_for_pods(kubectl, "x", "x-collector-0", namespace=namespace)
    before = pods_of(kubectl, "x", namespace=namespace)["x-collector-0"]
    tell_to_exit(kubectl, "x-collector-0", 7, namespace=namespace)
    wait_until(
        lambda: kubectl.get("dijob", "x", namespace=namespace)["status"].get("restarts", 0) > 0, 60
    )
    after = wait_for_pods(kubectl, "x", "x-collector-0", namespace=namespace)
    assert after["x-collector-0"].uid != before.uid
    tell_to_exit(kubectl, "x-collector-0", 3, namespace=namespace)
    failed = condition(wait_for_phase(kubectl, "x", "Failed", namespace=namespace), "Failed")
    assert failed["reason"] == "PodFailurePolicy"
    assert failed["message"] == (
        "failurePolicy.rules[0] ends the job; pod x-collector-0 failed first: exit code 3; "
        "its last lines: last words"
    )
