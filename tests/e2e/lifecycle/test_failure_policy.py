"""What a failure policy does with real exit codes, real memory and real logs."""

from __future__ import annotations

import pytest

from di_api.names import ANNOTATION_RESTART_ATTEMPT
from tests.e2e.examples import job_of
from tests.e2e.kubectl import Kubectl
from tests.e2e.pods import (
    condition,
    tell_to_exit,
    wait_for_event,
    wait_for_phase,
    wait_for_pods,
)
from tests.waiting import wait_until

JOB = "failure"
LEARNERS = (f"{JOB}-learner-0", f"{JOB}-learner-1")
COLLECTOR = f"{JOB}-collector-0"


def memory_of(kubectl: Kubectl, pod: str, namespace: str) -> tuple[str, str]:
    (container,) = kubectl.get("pod", pod, namespace=namespace)["spec"]["containers"]
    resources = container["resources"]
    return resources["requests"]["memory"], resources["limits"]["memory"]


@pytest.mark.proves(
    "runbook.md#when-something-is-wrong/the-job-is-failed",
    "dijob.md#spec-failurepolicy/onexitcodes-operator",
    "dijob.md#spec-failurepolicy/onexitcodes-values",
)
def test_rules_decide_by_reason_exit_code_and_task(
    kubectl: Kubectl, namespace: str, python_image: str
) -> None:
    kubectl.apply(job_of(JOB, image=python_image, namespace=namespace))

    # The second learner lacks memory: both begin anew, and it has more.
    def status(key: str) -> object:
        return kubectl.get("dijob", JOB, namespace=namespace)["status"].get(key)

    wait_until(lambda: status("restartAttempts"))
    before = wait_for_pods(kubectl, JOB, *LEARNERS, COLLECTOR, namespace=namespace)
    assert memory_of(kubectl, LEARNERS[0], namespace) == ("16Mi", "48Mi")
    assert memory_of(kubectl, LEARNERS[1], namespace) == ("96Mi", "96Mi")
    grown = f"container di-container of {LEARNERS[1]}: 48Mi -> 96Mi"
    assert len(wait_for_event(kubectl, JOB, grown, namespace=namespace)) == 1
    found = kubectl.get("dijob", JOB, namespace=namespace)
    assert found["status"]["restartAttempts"] == {"learner": 1}
    assert found["status"]["replicaFailures"]["learner"].keys() == {"1"}
    assert "exit code 137 (OOMKilled)" in condition(found, "Restarting")["message"]
    attempts = {
        pod["metadata"]["name"]: pod["metadata"]["annotations"].get(ANNOTATION_RESTART_ATTEMPT)
        for pod in kubectl.items("pods", namespace=namespace)
    }
    assert attempts == {COLLECTOR: None, **dict.fromkeys(LEARNERS, "1")}

    # An exit code that no rule speaks of counts for the collectors alone.
    tell_to_exit(kubectl, COLLECTOR, 7, namespace=namespace)
    wait_until(lambda: status("taskRestarts") == {"collector": 1})
    after = wait_for_pods(kubectl, JOB, *LEARNERS, COLLECTOR, namespace=namespace)
    assert after[COLLECTOR].uid != before[COLLECTOR].uid
    assert [after[name].uid for name in LEARNERS] == [before[name].uid for name in LEARNERS]

    # One that a rule speaks of ends the job, with the last lines of the log.
    tell_to_exit(kubectl, COLLECTOR, 3, namespace=namespace)
    failed = condition(wait_for_phase(kubectl, JOB, "Failed", namespace=namespace), "Failed")
    assert failed["reason"] == "PodFailurePolicy"
    assert failed["message"] == (
        f"failurePolicy.rules[1] ends the job; pod {COLLECTOR} failed first: exit code 3; "
        "its last lines: last words"
    )
