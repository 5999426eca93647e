"""What the operator keeps of the objects that it watches."""

from __future__ import annotations

import copy
import json
from typing import Any, cast

import pytest

from di_api.names import (
    ANNOTATION_RANK,
    API_VERSION,
    ENV_RANK,
    KIND,
    LABEL_JOB,
    LABEL_POD_NAME,
)
from di_operator.builders.pinning import Binding, pin, placed
from di_operator.cluster.informer_state import (
    transform,
    transform_other_pod,
    transform_pod,
)
from di_operator.lifecycle.observed.pods import Pod, failure_text, last_words, refusal_of
from tests.unit.operator.bodies import Object, controlled, pod


def test_equal_parts_of_similar_pods_are_shared() -> None:
    def alike(name: str, uid: str) -> Object:
        owner = {"apiVersion": API_VERSION, "kind": KIND, "name": "a", "uid": "u"}
        body = pod(name)
        body["metadata"] |= {"uid": uid, "ownerReferences": [{**owner, "controller": True}]}
        body["metadata"]["annotations"] = {ANNOTATION_RANK: "0"}
        body["metadata"]["labels"][LABEL_POD_NAME] = name
        ready = {"type": "Ready", "status": "True"}
        spec = {"nodeName": "n", "containers": [{"name": "c"}]}
        return {**body, "spec": spec, "status": {"phase": "Running", "conditions": [ready]}}

    def received(name: str, uid: str) -> Object:
        # Each text is a new object, as from the parser.
        return cast(Object, json.loads(json.dumps(alike(name, uid))))

    one, two = transform_pod(received("a-work-0", "1")), transform_pod(received("a-work-1", "2"))
    assert one["spec"] is two["spec"]
    assert one["status"] is two["status"]
    assert one["metadata"]["ownerReferences"] is two["metadata"]["ownerReferences"]
    assert one["metadata"]["annotations"] is two["metadata"]["annotations"]
    assert one["metadata"]["namespace"] is two["metadata"]["namespace"]
    assert one["metadata"]["labels"][LABEL_JOB] is two["metadata"]["labels"][LABEL_JOB]
    for each, name in ((one, "a-work-0"), (two, "a-work-1")):
        assert each["metadata"]["labels"] == {LABEL_JOB: "a", LABEL_POD_NAME: name}
        assert each["metadata"]["labels"][LABEL_POD_NAME] is each["metadata"]["name"]


OWNER = {"apiVersion": API_VERSION, "kind": KIND, "name": "a", "uid": "u", "controller": True}


def test_a_transformed_pod_keeps_the_fields_that_decisions_use() -> None:
    times = {"startedAt": "2025-12-31T23:00:00Z", "finishedAt": "2026-01-01T00:00:00Z"}
    ended = {"exitCode": 3, "reason": "Error", **times}
    said = "x" * 5000 + "last words"
    initialized = {"type": "Initialized", "status": "True"}
    ready = {"type": "Ready", "status": "False", "reason": "PodFailed"}
    status = {
        "phase": "Failed",
        "podIP": "10.0.0.1",
        "conditions": [
            {**ready, "lastTransitionTime": "2026-01-01T00:00:00Z"},
            {**initialized, "lastTransitionTime": "2026-01-01T00:00:00Z"},
            {"type": "ContainersReady", "status": "False"},
        ],
        "containerStatuses": [
            {
                "name": "main",
                "ready": False,
                "state": {"terminated": {**ended, "message": said, "containerID": "c"}},
            },
            {"name": "side", "ready": True, "state": {"running": {}}},
        ],
    }
    kept = {**pod()["metadata"], "ownerReferences": [OWNER], "resourceVersion": "7"}
    body = {
        "metadata": {**kept, "managedFields": [{}]},
        "spec": {
            "nodeName": "n1",
            "containers": [{"name": "main", "image": "i", "env": [{"name": "DI_NODES"}]}],
            "volumes": [{}],
        },
        "status": status,
    }
    assert transform_pod(body) == {
        "metadata": {**kept, "annotations": {}},
        "spec": {"nodeName": "n1", "containers": [{}]},
        "status": {
            "phase": "Failed",
            "conditions": [ready, initialized],
            "containerStatuses": [
                {"name": "main", "state": {"terminated": {**ended, "message": said[-512:]}}},
                {"state": {"running": {}}},
            ],
        },
    }


ENDED = {"exitCode": 3, "reason": "Error", "finishedAt": "2026-01-01T00:00:00Z", "message": "no"}


EARLIER = {**ENDED, "finishedAt": "2025-01-01T00:00:00Z", "containerID": "c"}


@pytest.mark.parametrize(
    ("statuses", "failures", "is_down", "code"),
    [
        # One that ran, failed and runs again.
        ([{"restartCount": 1, "state": {"running": {}}}], 1, False, 3),
        ([{"restartCount": 1, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}], 2, True, 3),
        ([{"restartCount": 0, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}], 1, True, 3),
        ([{"restartCount": 1, "state": {"waiting": {"reason": "ContainerCreating"}}}], 1, True, 3),
        ([{"restartCount": 1, "state": {"waiting": {}}}], 1, True, 3),
        ([{"restartCount": 2, "state": {"terminated": {"exitCode": 0}}}], 2, False, 3),
        # A sidecar that failed more often beside it.
        (
            [
                {"restartCount": 1, "state": {"running": {}}},
                {
                    "restartCount": 4,
                    "state": {"running": {}},
                    "lastState": {"terminated": {**EARLIER, "exitCode": 4}},
                },
            ],
            1,
            False,
            3,
        ),
        # Nothing failed yet.
        ([{"restartCount": 0, "state": {"running": {}}, "lastState": {}}], 0, False, None),
        ([{"restartCount": 0, "state": {"waiting": {"reason": "ErrImagePull"}}}], 0, False, None),
    ],
)
def test_a_transformed_pod_keeps_failures_of_restarted_containers(
    statuses: list[Any], failures: int, is_down: bool, code: int | None
) -> None:
    last = {} if code is None else {"lastState": {"terminated": ENDED}}
    shown = [{"name": f"c{i}", "ready": True, **last, **each} for i, each in enumerate(statuses)]
    body = {
        "metadata": {**pod()["metadata"], "ownerReferences": [OWNER]},
        "spec": {"containers": [{}] * len(shown)},
        "status": {"phase": "Running", "containerStatuses": shown},
    }
    whole = Pod.read(copy.deepcopy(body))
    for read in (whole, Pod.read(transform_pod(copy.deepcopy(body)))):
        assert (read.failures, read.is_down, read.signs.exit_code) == (failures, is_down, code)
        assert (failure_text(read), last_words(read)) == (failure_text(whole), last_words(whole))
        assert read.blocker == whole.blocker


def test_a_failed_sidecar_keeps_only_its_waiting_reason() -> None:
    failed = {"name": "s", "restartCount": 4, "lastState": {"terminated": ENDED}}
    runs = {**failed, "state": {"running": {}}}
    waits = {**failed, "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "m"}}}
    body = {
        "metadata": {**pod()["metadata"], "ownerReferences": [OWNER]},
        "status": {"phase": "Running", "initContainerStatuses": [runs, waits]},
    }
    kept = transform_pod(body)
    assert kept["status"]["initContainerStatuses"] == [
        {**waits, "lastState": {"terminated": {"exitCode": 3, "reason": "Error"}}}
    ]
    assert Pod.read(kept).failures == 0


def test_an_unbound_pod_keeps_the_one_node_it_is_pinned_to() -> None:
    body = controlled("a-work-0", "a", "a")
    terms = [{"matchExpressions": [{"key": "zone", "operator": "Exists"}]}]
    of_nodes = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    affinity = {"nodeAffinity": of_nodes, "podAntiAffinity": {}}
    body["spec"] = {"containers": [{}], "affinity": affinity}
    assert "affinity" not in transform_pod(copy.deepcopy(body))["spec"]

    body["spec"] = placed(body["spec"], "n1", Binding.SCHEDULER)
    assert transform_pod(copy.deepcopy(body))["spec"]["affinity"] == pin("n1")

    body["spec"]["nodeName"] = "n1"
    assert "affinity" not in transform_pod(body)["spec"]


def test_an_unbound_pod_keeps_why_it_cannot_be_scheduled() -> None:
    body = controlled("a-work-0", "a", "a")
    refused = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "0/1 nodes are available",
    }
    body["status"] = {"conditions": [{**refused, "observedGeneration": 1}]}
    assert transform_pod(copy.deepcopy(body))["status"] == {"conditions": [refused]}
    assert refusal_of(transform_pod(copy.deepcopy(body))) == "0/1 nodes are available"

    body["status"]["nominatedNodeName"] = "n1"
    assert refusal_of(transform_pod(copy.deepcopy(body))) == ""

    body["status"] = {"conditions": [{**refused, "status": "True"}]}
    assert transform_pod(body)["status"] == {"conditions": []}


def test_an_unbound_foreign_pod_keeps_its_requests_and_constraints() -> None:
    wants: Object = {
        "priority": 7,
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"operator": "Exists"}],
        "affinity": pin("n1"),
    }
    refused = {
        **{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"},
        "message": "0/1 nodes are available",
    }
    body = {
        "metadata": {"name": "a", "uid": "u"},
        "spec": {"containers": [], "volumes": [{}], **wants},
        "status": {"phase": "Pending", "conditions": [refused, {"type": "X", "status": "True"}]},
    }
    kept = transform_other_pod(copy.deepcopy(body))
    assert kept["spec"] == {"containers": [], "initContainers": [], **wants}
    assert kept["status"] == {"phase": "Pending", "conditions": [refused]}

    body["spec"]["nodeName"] = "n1"
    bound = transform_other_pod(body)
    assert bound["spec"] == {"containers": [], "initContainers": [], "nodeName": "n1"}


def test_a_foreign_pod_with_our_labels_keeps_its_requests() -> None:
    requests = {"requests": {"cpu": "1"}}
    body = {
        "metadata": pod()["metadata"],
        "spec": {"nodeName": "n1", "containers": [{"name": "main", "resources": requests}]},
    }
    assert transform_pod(body)["spec"] == {
        "nodeName": "n1",
        "containers": [{"resources": requests}],
        "initContainers": [],
    }


@pytest.mark.parametrize(("note", "kept"), [("3", {}), ("7", {"env": [{"name": ENV_RANK}]})])
def test_the_rank_variable_is_kept_if_the_annotation_differs(note: str, kept: Object) -> None:
    body = controlled("a-work-0", "a", "a")
    body["metadata"]["annotations"] = {ANNOTATION_RANK: note}
    told = {"name": ENV_RANK, "value": "3"}
    body["spec"] = {"containers": [{"env": [{"name": "X"}, told]}, {}]}
    for variable in kept.get("env", ()):
        variable["value"] = "3"
    assert transform_pod(body)["spec"]["containers"] == [kept, {}]


def test_other_objects_lose_only_their_managed_fields() -> None:
    body = {"metadata": {"name": "a", "managedFields": [{}]}, "spec": {"tasks": [{"name": "x"}]}}
    assert transform(body) == {"metadata": {"name": "a"}, "spec": {"tasks": [{"name": "x"}]}}


def test_similar_foreign_pods_share_all_but_names_and_nodes() -> None:
    def other(name: str, node: str) -> Object:
        container = {"name": name, "image": "i", "resources": {"requests": {"cpu": "1"}}}
        return transform_other_pod(
            {
                "metadata": {"name": name, "uid": f"uid-{name}", "labels": {"app": name}},
                "spec": {"nodeName": node, "containers": [container]},
                "status": {"phase": "Running", "podIP": name},
            }
        )

    one, two = other("one", "a"), other("two", "b")
    assert one == {
        "metadata": {"name": "one", "uid": "uid-one"},
        "spec": {
            "nodeName": "a",
            "containers": [{"resources": {"requests": {"cpu": "1"}}}],
            "initContainers": [],
        },
        "status": {"phase": "Running"},
    }
    assert one["spec"]["containers"] is two["spec"]["containers"]
    assert one["status"] is two["status"]
    assert two["spec"]["nodeName"] == "b"
