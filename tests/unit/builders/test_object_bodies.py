"""Bodies of a job's ConfigMap and Events; Services and pods are in `tests/golden`."""

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

JOB = {"metadata": {"name": "x", "namespace": "rl", "uid": "uid-x", "resourceVersion": "5"}}
NODES = NodeLists(by_rank=("a.di-x", "localhost"), by_task={"learner": ("a.di-x",)})


# Of "nodes", its list, "tasks.learner" and its list, each in a line.
DIGEST = "53b36a27395d874574f6aab82b472e0372815e818bb5b48dec70bed4af1cc8b5"


def test_a_replacement_of_the_config_map_is_bound_to_what_was_read() -> None:
    body = configmap_body(JOB, NODES.files(), resource_version="41")
    digest = {"diengine/digest": DIGEST}
    assert body["metadata"]["annotations"] == digest
    assert body["metadata"]["resourceVersion"] == "41"


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
