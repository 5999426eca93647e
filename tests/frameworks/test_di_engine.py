"""The examples of DI-engine learn, and its collectors come and go while its learner learns."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from di_cluster.cluster import Cluster
from di_cluster.current import CurrentCluster
from examples.demo.manifests import EXAMPLES, templates
from tests.e2e.examples import load_image, wait_for_end, with_image
from tests.e2e.kubectl import Kubectl
from tests.e2e.pods import wait_for_pods
from tests.waiting import wait_until

EXAMPLE = "di-engine-elastic"
LEARNER, EVALUATOR = f"{EXAMPLE}-learner-0", f"{EXAMPLE}-evaluator-0"
COLLECTORS = tuple(f"{EXAMPLE}-collector-{index}" for index in range(2))
PODS = (LEARNER, EVALUATOR, *COLLECTORS)
RETURN = re.compile(r"(?:Episode Return\(|current episode_return: )([\d.]+)")
SOLVED, NEVER = 195, 1000
"""Mean returns: at the first DI-engine ends, the second is beyond the longest episode."""


def job_of(cluster: Cluster | CurrentCluster, example: str, namespace: str) -> dict[str, Any]:
    """An example's job with the image of this machine."""
    found = yaml.safe_load(EXAMPLES[example].read_text())
    return with_image(found, image=load_image(cluster, "di-engine"), namespace=namespace)


@pytest.mark.proves(
    "di-engine.md#processes-that-come-and-go",
    "di-engine.md#try-it/make-demo-example-di-engine-elastic",
)
def test_a_collector_leaves_alone_and_another_one_joins(
    kubectl: Kubectl, cluster: Cluster | CurrentCluster, namespace: str
) -> None:
    manifest = job_of(cluster, EXAMPLE, namespace)
    # As many as there are, whatever the learner asks for.
    manifest["spec"]["tasks"][-1] |= {"replicas": 2, "minReplicas": 2, "maxReplicas": 2}
    for template in templates(manifest):
        (container,) = template["spec"]["containers"]
        container["env"] = [{"name": "STOP_VALUE", "value": str(NEVER)}]
    kubectl.apply(manifest)
    before = wait_for_pods(kubectl, EXAMPLE, *PODS, namespace=namespace)
    _wait_for_step(kubectl, namespace, past=0)

    *_, left = COLLECTORS
    kubectl("--namespace", namespace, "delete", "pod", left)
    after = wait_for_pods(kubectl, EXAMPLE, *PODS, namespace=namespace)
    assert {name for name in PODS if after[name].uid != before[name].uid} == {left}
    wait_until(
        lambda: "collect end" in kubectl.logs(left, namespace=namespace),
        what="the collector that joined to collect",
    )
    _wait_for_step(kubectl, namespace, past=_step(kubectl, namespace))
    assert kubectl.phase(EXAMPLE, namespace=namespace) == "Running"


@pytest.mark.parametrize(
    ("example", "evaluator"),
    [
        (EXAMPLE, EVALUATOR),
        pytest.param(
            *("di-engine", "di-engine-evaluator-0"),
            marks=pytest.mark.proves("di-engine.md#try-it/make-demo-example-di-engine"),
        ),
        pytest.param(
            *("di-engine-dist", "di-engine-dist-coordinator"),
            marks=pytest.mark.proves("di-engine.md#try-it/make-demo-example-di-engine-dist"),
        ),
    ],
)
def test_an_example_learns(
    example: str,
    evaluator: str,
    kubectl: Kubectl,
    cluster: Cluster | CurrentCluster,
    namespace: str,
) -> None:
    kubectl.apply(job_of(cluster, example, namespace))
    wait_for_end(kubectl, example, namespace=namespace)
    status = kubectl.get("dijob", example, namespace=namespace)["status"]
    log = kubectl.logs(evaluator, namespace=namespace)
    assert status["phase"] == "Succeeded", log
    assert status.get("restarts", 0) == 0
    assert float(RETURN.findall(log)[-1]) >= SOLVED


def _step(kubectl: Kubectl, namespace: str) -> float:
    found = kubectl.get("dijob", EXAMPLE, namespace=namespace)
    return float(found["status"]["profilings"]["step"])


def _wait_for_step(kubectl: Kubectl, namespace: str, *, past: float) -> None:
    wait_until(lambda: _step(kubectl, namespace) > past, what="another step")
