"""Bodies of a job's Service, ConfigMap and Events, as written down."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from di_operator.builders.configmap import (
    configmap_body,
    has_groups,
    is_as_written,
    transform_configmap,
)
from di_operator.builders.event import event_body
from di_operator.builders.nodes import NodeLists
from di_operator.builders.service import service_body

JOB = {"metadata": {"name": "x", "namespace": "rl", "uid": "uid-x", "resourceVersion": "5"}}
METADATA = {
    "name": "di-x",
    "namespace": "rl",
    "labels": {"diengine/job": "x", "diengine/operator": "di-operator"},
    "ownerReferences": [
        {
            "apiVersion": "diengine.opendilab.org/v2alpha1",
            "kind": "DIJob",
            "name": "x",
            "uid": "uid-x",
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ],
}
NODES = NodeLists(by_rank=("a.di-x", "localhost"), by_task={"learner": ("a.di-x",)})


# Of "nodes", its list, "tasks.learner" and its list, each in a line.
DIGEST = "53b36a27395d874574f6aab82b472e0372815e818bb5b48dec70bed4af1cc8b5"


def test_the_service_is_headless_and_publishes_pods_that_are_not_ready() -> None:
    assert service_body(JOB) == {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": METADATA,
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {"diengine/job": "x", "diengine/operator": "di-operator"},
            "ports": [
                {"name": "di-port", "port": 22270, "protocol": "TCP", "targetPort": "di-port"}
            ],
        },
    }


def test_the_config_map_holds_a_file_for_all_ranks_and_one_for_each_task() -> None:
    assert configmap_body(JOB, NODES.files()) == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {**METADATA, "annotations": {"diengine/digest": DIGEST}},
        "data": {"nodes": "a.di-x,localhost", "tasks.learner": "a.di-x"},
    }


def test_a_replacement_of_the_config_map_is_bound_to_what_was_read() -> None:
    body = configmap_body(JOB, NODES.files(), resource_version="41")
    digest = {"diengine/digest": DIGEST}
    assert body["metadata"] == {**METADATA, "annotations": digest, "resourceVersion": "41"}


def test_an_event_refers_to_the_job_and_counts() -> None:
    first = datetime(2026, 1, 1, 12, tzinfo=UTC)
    event = event_body(
        job=JOB,
        type="Warning",
        reason="QuotaExceeded",
        message="m" * 3000,
        name="x.1",
        first=first,
        last=first + timedelta(seconds=90),
        count=3,
        instance="di-operator-0",
    )

    assert event.pop("message") == "m" * 1024
    assert event == {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "x.1", "namespace": "rl"},
        "involvedObject": {
            "apiVersion": "diengine.opendilab.org/v2alpha1",
            "kind": "DIJob",
            "name": "x",
            "namespace": "rl",
            "uid": "uid-x",
            "resourceVersion": "5",
        },
        "type": "Warning",
        "reason": "QuotaExceeded",
        "firstTimestamp": "2026-01-01T12:00:00Z",
        "lastTimestamp": "2026-01-01T12:01:30Z",
        "count": 3,
        "source": {"component": "di-operator"},
        "reportingComponent": "di-operator",
        "reportingInstance": "di-operator-0",
    }


def test_group_files_are_separate_from_node_lists() -> None:
    groups = {"groups.learner": "{}\n"}
    body = configmap_body(JOB, NODES.files(), groups)
    assert body["data"] == {**NODES.files(), **groups}
    kept = transform_configmap(body)
    assert is_as_written(kept)
    assert has_groups(kept, groups)
    assert has_groups(kept, {})
    assert not has_groups(kept, {"groups.learner": "{ }\n"})
    assert not has_groups(transform_configmap(configmap_body(JOB, NODES.files())), groups)
