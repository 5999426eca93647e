"""The release as cert-manager issues its certificates: changed over, renewed, changed back."""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from tempfile import NamedTemporaryFile

import pytest

from di_certs.authority import is_issued_by
from di_cluster.builds.images import Image
from di_cluster.cluster import Cluster
from di_cluster.current import CurrentCluster
from di_cluster.release import Release
from tests.e2e.deployments import is_admitted
from tests.e2e.jobs import job, sleep, task
from tests.e2e.kubectl import Kubectl
from tests.e2e.pods import run_in_pod
from tests.e2e.release.test_certificates import SERVED, admitting, identities, webhooks
from tests.e2e.release.test_install import bundles
from tests.failures.sources import shown_log
from tests.waiting import SLOW_SECONDS, wait_until

pytestmark = pytest.mark.extended

AUTHORITY = "di-webhook-tls-authority"


@contextmanager
def cert_manager(cluster: Cluster, kubectl: Kubectl) -> Iterator[None]:
    """cert-manager's controllers beside the cluster, and its kinds in it."""
    manifests = [f"--filename={path}" for path in cluster.manifests("cert-manager")]
    kubectl("create", "namespace", "cert-manager")
    kubectl("apply", "--server-side", *manifests)
    kubectl("wait", "--for=condition=Established", "--timeout=240s", *manifests)
    with (
        NamedTemporaryFile("w", suffix=".log") as log,
        shown_log(Path(log.name), "cert-manager"),
    ):
        process = subprocess.Popen(
            [cluster.binary("cert-manager"), "--kubeconfig", cluster.kubeconfig],
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        try:
            yield
        finally:
            process.terminate()
            process.wait(60)
            kubectl("delete", "--wait", *manifests)
            kubectl("delete", "namespace", "cert-manager")


@pytest.fixture
def issued(
    cluster: Cluster | CurrentCluster,
    kubectl: Kubectl,
    release: Release,
    images: dict[str, Image],
    values: list[str],
) -> Iterator[Release]:
    """The release in mode `cert-manager`; in its own mode again at the end."""
    if isinstance(cluster, CurrentCluster):
        pytest.skip("what cert-manager a cluster of somebody's has, and whether, is its owner's")
    with cert_manager(cluster, kubectl):
        try:
            release.install(images, arguments=[*values, "--set", "certificates.mode=cert-manager"])
            yield release
        finally:
            release.install(images, arguments=values)


def renew(kubectl: Kubectl, certificate: str, *, namespace: str) -> None:
    """Ask for a renewal as cert-manager's own command does."""
    condition = {
        "type": "Issuing",
        "status": "True",
        "reason": "ManuallyTriggered",
        "message": "asked for by a test",
        "lastTransitionTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    found = kubectl.get("certificate", certificate, namespace=namespace)
    conditions = [*found["status"]["conditions"], condition]
    kubectl(
        *("--namespace", namespace, "patch", "certificate", certificate, "--subresource=status"),
        *("--type=merge", "--patch", json.dumps({"status": {"conditions": conditions}})),
    )


@pytest.mark.proves("cluster.md#cert-manager", "operations.md#certificates/cert-manager")
def test_renewals_by_cert_manager_refuse_no_job_and_restart_nothing(
    kubectl: Kubectl, issued: Release, namespace: str, python_image: str
) -> None:
    body = job(
        "x", namespace=namespace, tasks=[task("learner", image=python_image, program=sleep(1))]
    )
    trusted = wait_until(lambda: _trusted(kubectl, issued))
    pods = webhooks(kubectl, issued)
    ask = SERVED.format(pods=[pod["status"]["podIP"] for pod in pods])

    def served() -> set[str]:
        found = run_in_pod(kubectl, "deployment/di-server", ask, namespace=issued.namespace)
        return set(found)

    def is_served_by(authority: bytes) -> bool:
        return all(is_issued_by(found.encode(), authority) for found in served())

    # The kubelet has to bring what cert-manager issued into the pods.
    wait_until(lambda: is_served_by(trusted), SLOW_SECONDS)
    wait_until(partial(is_admitted, kubectl, body))
    with admitting(kubectl, body) as answers:
        before = served()
        renew(kubectl, "di-webhook", namespace=issued.namespace)
        wait_until(lambda: not served() & before, SLOW_SECONDS)
        renew(kubectl, "di-webhook-ca", namespace=issued.namespace)
        renewed = wait_until(lambda: _trusted(kubectl, issued, not_=trusted))
        since = len(answers)
        wait_until(lambda: len(answers) >= since + 5)
    assert all(answers), answers
    # With the key of the one before it answers for what that one has issued.
    assert is_served_by(renewed)
    assert identities(webhooks(kubectl, issued)) == identities(pods)


def _trusted(kubectl: Kubectl, release: Release, *, not_: bytes = b"") -> bytes:
    """The authority, once it is the one that API servers are told to trust."""
    secret = kubectl.get("secret", AUTHORITY, namespace=release.namespace)
    found = base64.b64decode(secret["data"]["tls.crt"])
    assert found != not_
    # The injector keeps in a bundle what was trusted before.
    assert all(found in base64.b64decode(bundle) for bundle in bundles(kubectl, release))
    return found
