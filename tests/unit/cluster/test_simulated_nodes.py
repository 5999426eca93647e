"""Simulated nodes and the stages that move their pods."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from di_cluster.nodes.simulated import (
    ANNOTATION_EXIT_CODE,
    ANNOTATION_READY_AFTER,
    ANNOTATION_RUN_FOR,
    NODE_TAINT,
    STAGES,
    is_ready,
    node_body,
)


@pytest.fixture(scope="module")
def stages() -> dict[str, dict[str, Any]]:
    documents = yaml.safe_load_all(STAGES.read_text())
    return {stage["metadata"]["name"]: stage["spec"] for stage in documents}


def test_a_simulated_node_has_the_requested_resources() -> None:
    body = node_body(7, gpus=4, cpus=32)
    assert body["metadata"]["name"] == "simulated-0007"
    assert body["status"]["allocatable"] == body["status"]["capacity"]
    assert body["status"]["capacity"]["nvidia.com/gpu"] == "4"
    assert body["status"]["capacity"]["cpu"] == "32"
    assert "nvidia.com/gpu" not in node_body(0, gpus=0, cpus=1)["status"]["capacity"]
    # Real pods are kept off.
    assert body["spec"]["taints"] == [NODE_TAINT]
    assert NODE_TAINT["effect"] == "NoSchedule"


@pytest.mark.parametrize(
    ("status", "taints", "ready"),
    [
        ("True", [NODE_TAINT], True),
        ("False", [NODE_TAINT], False),
        ("True", [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}], False),
    ],
    ids=["Ready", "not Ready", "Ready, start-up taint still there"],
)
def test_a_node_is_ready_when_pods_can_be_placed(
    status: str, taints: list[dict[str, str]], ready: bool
) -> None:
    node = {
        "status": {"conditions": [{"type": "Ready", "status": status}]},
        "spec": {"taints": taints},
    }
    assert is_ready(node) is ready


def test_annotations_control_simulated_pods(stages: dict[str, dict[str, Any]]) -> None:
    keys = [each["key"] for each in stages["pod-finish"]["selector"]["matchExpressions"]]
    assert f'.metadata.annotations["{ANNOTATION_EXIT_CODE}"]' in keys
    for name, annotation in (
        ("pod-run", ANNOTATION_READY_AFTER),
        ("pod-finish", ANNOTATION_RUN_FOR),
    ):
        expression = stages[name]["delay"]["durationFrom"]["expressionFrom"]
        assert expression == f'.metadata.annotations["{annotation}"]'
        expressions = stages[name]["selector"]["matchExpressions"]
        assert {"key": ".metadata.deletionTimestamp", "operator": "DoesNotExist"} in expressions
