"""A program that stops getting further, on a real node: it is told of and begun anew once."""

from __future__ import annotations

import pytest

from di_api.names import ANNOTATION_RESTART_ATTEMPT, LABEL_JOB
from tests.e2e.examples import job_of
from tests.e2e.jobs import job, sleep, task
from tests.e2e.kubectl import Kubectl
from tests.e2e.pods import ASK, condition, run_in_pod, wait_for_event
from tests.waiting import wait_until

SENSELESS = ASK.format(path="/profilings", body=b'{"step": "far"}')


@pytest.mark.proves(
    "runbook.md#when-something-is-wrong/the-job-is-running-and-gets-no-further",
    "runbook.md#when-something-is-wrong/the-job-goes-on-and-a-condition",
)
def test_a_job_that_hangs_is_restarted_as_often_as_it_may(
    kubectl: Kubectl, namespace: str, python_image: str
) -> None:
    """The time-outs of the example bound nothing here: whenever the report comes, it hangs then."""
    kubectl.apply(job_of("progress", image=python_image, namespace=namespace))
    learner = task("learner", image=python_image, program=sleep(3600))
    policy = {"timeoutSeconds": 3, "action": "RestartTask"}
    kubectl.apply(job("silent", namespace=namespace, tasks=[learner], progressPolicy=policy))

    # One that says nothing, or nothing that makes sense, is told of and left alone.
    wait_for_event(kubectl, "silent", "NoSignal: ", namespace=namespace)
    assert run_in_pod(kubectl, "silent-learner-0", SENSELESS, namespace=namespace) == -422

    def rejected() -> bool:
        found = kubectl.get("dijob", "silent", namespace=namespace)
        assert condition(found, "ReportRejected")["status"] == "True"
        assert condition(found, "NoSignal")["status"] == "True"
        assert (found["status"]["phase"], found["status"].get("restarts", 0)) == ("Running", 0)
        return "step" in condition(found, "ReportRejected")["message"]

    wait_until(rejected, what="the report to be told of")

    def failed() -> str:
        status = kubectl.get("dijob", "progress", namespace=namespace)["status"]
        conditions = {one["type"]: one for one in status["conditions"]}
        assert status["phase"] == "Failed", conditions
        assert status["restarts"] == 1
        assert conditions["Failed"]["reason"] == "NoProgress"
        assert conditions["Hung"]["status"] == "True"
        message: str = conditions["Failed"]["message"]
        return message

    message = wait_until(failed, what="the job to hang for the second time")
    assert message.startswith("the reported step is 62 since ")
    assert message.endswith("; 1 restart of 1 used")
    for event in ("Hung: the reported step is 62 since ", "restarting learner; restart 1 of 1"):
        wait_for_event(kubectl, "progress", event, namespace=namespace)

    attempts = {
        pod["metadata"]["name"]: pod["metadata"]
        .get("annotations", {})
        .get(ANNOTATION_RESTART_ATTEMPT)
        for pod in kubectl.items("pods", f"--selector={LABEL_JOB}=progress", namespace=namespace)
    }
    assert attempts == {"progress-learner-0": "1", "progress-collector-0": None}

    header, row = kubectl("--namespace", namespace, "get", "dijobs", "progress").splitlines()
    shown = dict(zip(header.split(), row.split(), strict=True))
    assert shown["PROGRESS"] == "62%"
    assert shown["LASTREPORT"][-1] in "sm"
