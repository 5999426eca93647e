"""Uninstalling ends the services and nothing else; installing again takes over what is there.

Runs after all other tests, whose release it ends.
"""

from __future__ import annotations

import pytest

from di_api.names import LABEL_JOB
from di_cluster.builds.images import Image
from di_cluster.errors import CommandFailed
from di_cluster.release import Release
from tests.e2e.jobs import job, sleep, task
from tests.e2e.kubectl import Kubectl
from tests.e2e.pods import condition
from tests.waiting import wait_until

pytestmark = pytest.mark.extended

CRD = "customresourcedefinition/dijobs.diengine.opendilab.org"


@pytest.fixture
def running_job(kubectl: Kubectl, namespace: str, python_image: str) -> str:
    """A job that trains on and on; with ten collectors more the names of its pods are too long."""
    name = "steady" * 8 + "abc"
    kubectl.apply(
        job(
            name,
            namespace=namespace,
            tasks=[
                task("learner", image=python_image, program=sleep(3600)),
                task("collector", image=python_image, program=sleep(3600), replicas=2),
            ],
        )
    )
    wait_until(lambda: kubectl.phase(name, namespace=namespace) == "Running")
    return name


@pytest.mark.proves(
    "runbook.md#when-something-is-wrong/the-job-goes-on-and-a-condition",
    "operations.md#uninstall-and-reinstall",
)
def test_the_crd_and_running_jobs_outlive_the_release_which_adopts_them_again(
    release: Release,
    images: dict[str, Image],
    kubectl: Kubectl,
    namespace: str,
    running_job: str,
) -> None:
    def pods() -> dict[str, tuple[str, str]]:
        """{name: (uid, phase)} of the job's pods."""
        found = kubectl.items("pods", f"--selector={LABEL_JOB}={running_job}", namespace=namespace)
        return {p["metadata"]["name"]: (p["metadata"]["uid"], p["status"]["phase"]) for p in found}

    before = pods()
    assert len(before) == 3

    release.helm("uninstall", release.name, "--wait", "--timeout", "150s")
    assert not kubectl.items("deployments", namespace=release.namespace)
    assert release.name not in kubectl(
        "get", "mutatingwebhookconfigurations,validatingwebhookconfigurations", "--output=name"
    )
    kubectl("get", CRD)
    assert pods() == before
    # Nobody checks now, but nothing stands in the way either.
    kubectl.apply(
        job(
            "meanwhile",
            namespace=namespace,
            tasks=[task("learner", image=images["server"].reference, program=sleep(1))],
        )
    )

    # Nor does the schema know how long a pod's name would be.
    kubectl(
        *("--namespace", namespace, "patch", "dijob", running_job, "--type=json"),
        '--patch=[{"op": "add", "path": "/spec/tasks/1/maxReplicas", "value": 11}]',
    )

    release.install(images)
    # The first request after helm's return: it has waited until the webhook is called and trusted.
    learner = task("learner", image=images["server"].reference, program=sleep(1))
    kubectl.apply(job("after", namespace=namespace, tasks=[learner]))
    with pytest.raises(CommandFailed) as refused:
        kubectl.apply(job("bad", namespace=namespace, tasks=[{**learner, "dependsOn": ["x"]}]))
    assert "spec.tasks[0].dependsOn[0]" in refused.value.output
    wait_until(lambda: kubectl.phase("meanwhile", namespace=namespace) == "Succeeded")

    def told() -> bool:
        found = condition(kubectl.get("dijob", running_job, namespace=namespace), "SpecInvalid")
        assert (found["status"], found["reason"]) == ("True", "RulesBroken")
        return "characters are too many" in found["message"]

    wait_until(told, what="the job to say that its spec is invalid")
    assert kubectl.phase(running_job, namespace=namespace) == "Running"
    assert pods() == before
    status = kubectl.get("dijob", running_job, namespace=namespace)["status"]
    assert (status.get("restarts", 0), status.get("reschedules", 0)) == (0, 0)
