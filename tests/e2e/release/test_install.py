"""The chart on a real node: it works, refuses what is wrong, and upgrades without a trace."""

from __future__ import annotations

from typing import Any

import pytest

from di_api.names import COORDINATED_VERSIONS, GROUP, LABEL_JOB, PLURAL, VERSION
from di_cluster.builds.images import Image
from di_cluster.errors import CommandFailed
from di_cluster.release import Release
from tests.e2e.jobs import job, older_job, sleep, task
from tests.e2e.kubectl import Kubectl, Object
from tests.waiting import wait_until

CONFIGURATIONS = ("mutatingwebhookconfiguration", "validatingwebhookconfiguration")
DEPLOYMENTS = ("di-webhook", "di-operator", "di-server")


def bundles(kubectl: Kubectl, release: Release) -> list[str]:
    """The authority published in each webhook configuration and in the definition of DIJobs."""
    conversion = "--output=jsonpath={.spec.conversion.webhook.clientConfig.caBundle}"
    return [
        *(
            kubectl(
                *("get", kind, release.name),
                "--output=jsonpath={.webhooks[*].clientConfig.caBundle}",
            )
            for kind in CONFIGURATIONS
        ),
        kubectl("get", "crd", f"{PLURAL}.{GROUP}", conversion),
    ]


def restarts(pod: Object) -> int:
    return sum(c["restartCount"] for c in pod["status"]["containerStatuses"])


def test_every_replica_is_ready(release: Release, kubectl: Kubectl) -> None:
    for name in DEPLOYMENTS:
        status = kubectl.get("deployment", name, namespace=release.namespace)["status"]
        assert status["readyReplicas"] == 2
    # Waiting for each other at the start must not look like crashing.
    for pod in kubectl.items("pods", namespace=release.namespace):
        assert restarts(pod) == 0, pod["metadata"]["name"]


@pytest.mark.proves("operations.md#install")
def test_helm_test_runs_a_job_to_its_end(release: Release, kubectl: Kubectl) -> None:
    said = release.helm("test", release.name, "--timeout", "180s", "--logs")
    assert "Phase:          Succeeded" in said
    assert "\nSucceeded\n" in said
    assert not kubectl.items("dijobs", namespace=release.namespace)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"replicas": 0}, "spec.tasks[0].replicas"),
        ({"type": "teacher"}, "spec.tasks[0].type"),
        ({"minReplicas": 3, "maxReplicas": 2}, "spec.tasks[0].minReplicas"),
        ({"dependsOn": ["nobody"]}, "spec.tasks[0].dependsOn[0]"),
    ],
    ids=["no replicas", "an unknown type", "min above max", "an unknown dependency"],
)
@pytest.mark.proves("runbook.md#when-something-is-wrong/kubectl-apply-is-refused")
def test_a_bad_job_is_refused_with_the_path_of_its_mistake(
    kubectl: Kubectl, namespace: str, python_image: str, fields: dict[str, Any], message: str
) -> None:
    bad = {**task("learner", image=python_image, program=sleep(1)), **fields}
    with pytest.raises(CommandFailed) as refused:
        kubectl.apply(job("bad", namespace=namespace, tasks=[bad]))
    assert message in refused.value.output
    assert not kubectl.items("dijobs", namespace=namespace)


def test_the_older_versions_are_served_and_aggregators_can_be_made(
    release: Release, kubectl: Kubectl, namespace: str, python_image: str
) -> None:
    kubectl.apply(older_job("older", namespace=namespace, image=python_image))
    for version in (VERSION, *COORDINATED_VERSIONS):
        found = kubectl.get(f"{PLURAL}.{version}.{GROUP}", "older", namespace=namespace)
        assert found["apiVersion"] == f"{GROUP}/{version}"
    config = kubectl.get("agconfig", "aggregator-config", namespace=release.namespace)
    assert config["spec"]["aggregator"]["template"]["spec"]["containers"]


def test_an_upgrade_and_a_rollback_leave_jobs_and_the_authority_alone(
    release: Release, kubectl: Kubectl, namespace: str, python_image: str, images: dict[str, Image]
) -> None:
    kubectl.apply(
        job(
            "steady",
            namespace=namespace,
            tasks=[task("learner", image=python_image, program=sleep(3600), replicas=2)],
        )
    )
    wait_until(lambda: kubectl.phase("steady", namespace=namespace) == "Running")

    def pods() -> dict[str, tuple[str, int]]:
        return {
            p["metadata"]["name"]: (p["metadata"]["uid"], restarts(p))
            for p in kubectl.items("pods", f"--selector={LABEL_JOB}=steady", namespace=namespace)
        }

    before, authority = pods(), bundles(kubectl, release)
    assert len(before) == 2
    assert all(authority)
    assert len(set(authority)) == 1

    release.install(images, arguments=["--set", "operator.logLevel=debug,server.replicas=3"])
    assert (
        kubectl.get("deployment", "di-server", namespace=release.namespace)["status"][
            "readyReplicas"
        ]
        == 3
    )
    release.helm("rollback", release.name, "--wait", "--timeout", "150s")
    assert (
        kubectl.get("deployment", "di-server", namespace=release.namespace)["spec"]["replicas"] == 2
    )

    assert pods() == before
    assert bundles(kubectl, release) == authority
    assert kubectl.phase("steady", namespace=namespace) == "Running"
