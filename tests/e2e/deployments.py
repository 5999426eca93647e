"""The Deployments of the services, taken away and brought back by tests."""

from __future__ import annotations

import json

from di_cluster.errors import CommandFailed
from di_cluster.release import Release
from tests.e2e.kubectl import Kubectl, Object
from tests.waiting import wait_until

REPLICAS = 2
"""What the chart installs of each service."""


def take_away(kubectl: Kubectl, release: Release, service: str) -> None:
    """Scale a service to nothing, and wait until its last pod is gone."""
    _scale(kubectl, release, service, 0)
    selector = f"--selector=app.kubernetes.io/component={service}"
    wait_until(
        lambda: not kubectl.items("pods", selector, namespace=release.namespace),
        what=f"no pod of di-{service} is left",
    )


def bring_back(kubectl: Kubectl, release: Release, service: str) -> None:
    """Scale a service to what it was, and wait until every replica is ready."""
    _scale(kubectl, release, service, REPLICAS)
    wait_until_rolled_out(kubectl, release, service)


def restart(kubectl: Kubectl, release: Release, service: str) -> None:
    """Replace every pod of a service, and wait until the new ones are ready."""
    deployment = f"deployment/di-{service}"
    kubectl("--namespace", release.namespace, "rollout", "restart", deployment)
    wait_until_rolled_out(kubectl, release, service)


def wait_until_rolled_out(kubectl: Kubectl, release: Release, service: str) -> None:
    """Wait until every replica of a service is ready."""
    kubectl(
        *("--namespace", release.namespace, "rollout", "status", f"deployment/di-{service}"),
        "--timeout=240s",
        seconds=300,
    )


def is_admitted(kubectl: Kubectl, body: Object) -> bool:
    """Whether the webhook is there and lets an object in, which is not kept."""
    try:
        kubectl(*("apply", "--dry-run=server", "--filename", "-"), stdin=json.dumps(body))
    except CommandFailed:
        return False
    return True


def _scale(kubectl: Kubectl, release: Release, service: str, replicas: int) -> None:
    kubectl(
        *("--namespace", release.namespace, "scale", f"deployment/di-{service}"),
        f"--replicas={replicas}",
    )
