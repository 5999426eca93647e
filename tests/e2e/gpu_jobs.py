"""Preemptible jobs on simulated GPU nodes, and how many GPUs they have."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from di_cluster.nodes.simulated import NODE_LABEL, NODE_TAINT
from tests.e2e.conftest import GPUS, NODES
from tests.e2e.jobs import job
from tests.e2e.kubectl import Kubectl
from tests.e2e.pods import pods_of
from tests.waiting import SLOW_SECONDS, wait_until

GPU = "nvidia.com/gpu"
SIMULATED = f"--selector={NODE_LABEL[0]}={NODE_LABEL[1]}"
"""Pods of a node that is gone are cleared away by Kubernetes itself, within a minute or so."""

# A job that gains from more GPUs, and has measured itself on as many as there are.
REPORT = {
    "learners": NODES * GPUS,
    "initBatchSize": 128,
    "maxBatchSize": 8192,
    "localBatchMin": 16,
    "localBatchMax": 512,
    "gradParams": {"sqr": 1.0, "var": 10.0},
    "perfParams": {
        **{"alphaC": 0.05, "betaC": 0.001, "alphaN": 0.1, "betaN": 0.001},
        **{"alphaR": 0.01, "betaR": 0.001, "gamma": 1.5},
    },
}


def learners(name: str, namespace: str) -> Any:
    """A preemptible job of 1 to 64 learners with a GPU each."""
    pod = {
        "nodeSelector": {NODE_LABEL[0]: NODE_LABEL[1]},
        "tolerations": [NODE_TAINT],
        "terminationGracePeriodSeconds": 1,
        "containers": [
            {"name": "di-container", "image": "none", "resources": {"limits": {GPU: "1"}}}
        ],
    }
    task = {
        "type": "learner",
        "minReplicas": 1,
        "maxReplicas": NODES * GPUS,
        "template": {"spec": pod},
    }
    return job(name, namespace=namespace, tasks=[task], preemptible=True)


def report(kubectl: Kubectl, names: str, namespace: str) -> None:
    """Tell, as the jobs would, how fast they are."""
    found = {**REPORT, "reportedAt": datetime.now(UTC).isoformat()}
    kubectl(
        *("--namespace", namespace, "patch", "dijob", *names, "--subresource=status"),
        *("--type=merge", "--patch", json.dumps({"status": {"profilings": found}})),
    )


def gpus_of(kubectl: Kubectl, names: str, namespace: str) -> dict[str, Counter[str]]:
    """By job: how many pods run on each node; only when all are Running and none is leaving."""
    found: dict[str, Counter[str]] = {}
    for name in names:
        status = kubectl.get("dijob", name, namespace=namespace)["status"]
        pods = pods_of(kubectl, name, namespace=namespace)
        assert status["phase"] == "Running", status
        assert not any(pod.is_leaving for pod in pods.values())
        found[name] = Counter(status["allocation"])
        assert found[name].total() == len(pods) == status["readyReplicas"]
    used = sum(found.values(), Counter())
    assert max(used.values()) <= GPUS, used
    return found


def settled(
    kubectl: Kubectl,
    names: str,
    namespace: str,
    accepts: Callable[[dict[str, int]], bool],
) -> dict[str, Counter[str]]:
    """Wait until the jobs run on so many GPUs as `accepts` wants."""

    def reached() -> dict[str, Counter[str]] | None:
        found = gpus_of(kubectl, names, namespace)
        sizes = {name: nodes.total() for name, nodes in found.items()}
        assert accepts(sizes), sizes
        return found

    return wait_until(reached, SLOW_SECONDS, what=f"{names} to share the GPUs") or {}
