"""A program that stops getting further, on a real node: it is told of and begun anew once."""

from __future__ import annotations

from di_api.names import ANNOTATION_RESTART_ATTEMPT, LABEL_JOB
from tests.e2e.examples import job_of
from tests.e2e.kubectl import Kubectl
from tests.e2e.pods import wait_for_event
from tests.waiting import wait_until


def test_a_job_that_hangs_is_restarted_as_often_as_it_may(
    kubectl: Kubectl, namespace: str, python_image: str
) -> None:
    """The time-outs of the example bound nothing here: whenever the report comes, it hangs then."""
    kubectl.apply(job_of("progress", image=python_image, namespace=namespace))

    def failed() -> str:
        status = kubectl.get("dijob", "progress", namespace=namespace)["status"]
        conditions = {one["type"]: one for one in status["conditions"]}
        assert status["phase"] == "Failed", conditions
        assert status["restarts"] == 1
        assert conditions["Failed"]["reason"] == "NoProgress"
        assert conditions["Hung"]["status"] == "True"
        message: str = conditions["Failed"]["message"]
        return message

    message = wait_until(failed, 120, what="the job to hang for the second time", every=0.5)
    assert message.startswith("the reported step is 62 since ")
    assert message.endswith("; 1 restart of 1 used")
    for event in ("Hung: the reported step is 62 since ", "begin anew: learner; restart 1 of 1"):
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
