"""The authority is replaced while jobs are being admitted, and one runs that talks to di-server."""

from __future__ import annotations

import base64
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest

from di_certs.authority import is_issued_by
from di_certs.inspection import split_certificates
from di_cluster.release import Release
from tests.e2e.deployments import REPLICAS, is_admitted
from tests.e2e.jobs import job, older_job, sleep, task
from tests.e2e.kubectl import Kubectl, Object
from tests.e2e.pods import run_in_pod, wait_for_pods
from tests.waiting import SLOW_SECONDS, wait_until

pytestmark = pytest.mark.extended

SERVING = "di-webhook-tls"
AUTHORITY = "di-webhook-tls-ca"

SERVED = """
import json, ssl
print(json.dumps([ssl.get_server_certificate((address, 8443), timeout=5) for address in {pods!r}]))
"""
"""Tells which certificate each of the webhook's pods serves."""

TRUSTED = """
import json, os, ssl, urllib.request
file = os.environ["DI_SERVER_CA_FILE"]
trust = ssl.create_default_context(cafile=file)
url = os.environ["DI_SERVER_URL"] + "/healthz"
with urllib.request.urlopen(url, timeout=60, context=trust):
    print(json.dumps(open(file).read()))
"""
"""Asks di-server, and tells whom the pod of a job trusts for it."""


def webhooks(kubectl: Kubectl, release: Release) -> list[Object]:
    """The webhook's running pods, without those that are being deleted."""
    running = kubectl.items(
        "pods",
        "--selector=app.kubernetes.io/component=webhook",
        "--field-selector=status.phase=Running",
        namespace=release.namespace,
    )
    # A pod that an upgrade has replaced serves for drainSeconds more and then has no address.
    return [pod for pod in running if "deletionTimestamp" not in pod["metadata"]]


def identities(pods: list[Object]) -> list[tuple[str, int]]:
    """Who the pods are and how often their containers started again."""
    return sorted(
        (p["metadata"]["uid"], p["status"]["containerStatuses"][0]["restartCount"]) for p in pods
    )


def authority(kubectl: Kubectl, release: Release) -> bytes:
    """The certificate of the authority; empty while its Secret does not exist."""
    for secret in kubectl.items("secrets", namespace=release.namespace):
        if secret["metadata"]["name"] == AUTHORITY:
            return base64.b64decode(secret["data"]["ca.crt"])
    return b""


@contextmanager
def admitting(kubectl: Kubectl, *bodies: dict[str, Any]) -> Iterator[list[bool]]:
    """Submit jobs in turn again and again, without keeping them; the list has who got in."""
    answers: list[bool] = []
    over = threading.Event()

    def submit() -> None:
        while not over.is_set():
            answers.extend(is_admitted(kubectl, body) for body in bodies)

    submitting = threading.Thread(target=submit)
    submitting.start()
    try:
        yield answers
    finally:
        over.set()
        submitting.join(120)


def test_a_lost_authority_is_replaced_without_a_refused_job_or_a_restart(
    kubectl: Kubectl, release: Release, namespace: str, python_image: str
) -> None:
    plain = job(
        "x", namespace=namespace, tasks=[task("learner", image=python_image, program=sleep(1))]
    )
    # Converted before it is admitted: by the same webhook, trusted in another place.
    older = older_job("y", namespace=namespace, image=python_image)
    for body in (plain, older):
        wait_until(partial(is_admitted, kubectl, body))
    kubectl.apply(
        job(
            "w",
            namespace=namespace,
            tasks=[task("learner", image=python_image, program=sleep(600))],
        )
    )
    wait_for_pods(kubectl, "w", "w-learner-0", namespace=namespace)

    def trusted() -> list[bytes]:
        found: str = run_in_pod(kubectl, "w-learner-0", TRUSTED, namespace=namespace)
        return split_certificates(found.encode())

    pods, before = webhooks(kubectl, release), authority(kubectl, release)
    wait_until(lambda: trusted()[0] == before, SLOW_SECONDS)
    assert (len(pods), bool(before)) == (REPLICAS, True)
    *_, moved = (pod["metadata"]["name"] for pod in pods)
    stay = [pod for pod in pods if pod["metadata"]["name"] != moved]

    with admitting(kubectl, plain, older) as answers:
        kubectl("--namespace", release.namespace, "delete", "secret", SERVING, AUTHORITY)
        # The one in its place starts once there is a Secret again; the others go on without it.
        kubectl("--namespace", release.namespace, "delete", "pod", moved, "--wait=false")

        def all_serve_the_new_one() -> bool:
            now = authority(kubectl, release)
            assert now not in (b"", before)
            found = webhooks(kubectl, release)
            assert (len(found), moved in {pod["metadata"]["name"] for pod in found}) == (
                REPLICAS,
                False,
            )
            ask = SERVED.format(pods=[pod["status"]["podIP"] for pod in found])
            served = run_in_pod(kubectl, "deployment/di-server", ask, namespace=release.namespace)
            return all(is_issued_by(found.encode(), now) for found in served)

        # The kubelet brings a changed Secret into a pod when it looks again, within two minutes.
        wait_until(all_serve_the_new_one, SLOW_SECONDS)
        now = authority(kubectl, release)

        def both_are_trusted() -> bool:
            found = trusted()
            assert found[0] == now
            # Behind it or further back: others may have been replaced before.
            assert before in found
            return True

        wait_until(both_are_trusted, SLOW_SECONDS)
        since = len(answers)
        wait_until(lambda: len(answers) >= since + 10)

    assert all(answers), answers
    found = identities(webhooks(kubectl, release))
    assert set(identities(stay)) <= set(found)
    assert [restarts for _, restarts in found] == [0] * REPLICAS
