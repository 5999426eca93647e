"""What is known of the cluster: own writes at once, deletions hidden, wakes only for news."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any, cast

import pytest

from di_api.kube.cache import WatchCache
from di_api.kube.resources import CONFIGMAPS, DIJOBS, PODS, SERVICES, WORKLOADS, Resource
from di_api.names import (
    ANNOTATION_RANK,
    API_VERSION,
    ENV_RANK,
    KIND,
    LABEL_JOB,
    LABEL_POD_NAME,
    LABEL_TASK_NAME,
)
from di_operator.builders.pinning import Binding, pin, placed
from di_operator.controller import JobKey
from di_operator.informer_state import (
    APART,
    SETTLE_MAX,
    InformerState,
    index_job,
    transform,
    transform_other_pod,
    transform_pod,
)
from di_operator.lifecycle.pods import Pod, PodCache, failure_text, last_words, refusal_of

Object = dict[str, Any]
KEY = JobKey("ns", "a")


class Cache:
    """What a watch cache does, without a watch; tests deliver its events."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], Object] = {}
        self._tell: list[Callable[[str, Object], None]] = []

    def subscribe(self, callback: Callable[[str, Object], None]) -> None:
        self._tell.append(callback)

    def get(self, namespace: str, name: str) -> Object | None:
        return self.objects.get((namespace, name))

    def items(self) -> list[Object]:
        return list(self.objects.values())

    def by_index(self, index: str, value: str) -> list[Object]:
        return [body for body in self.objects.values() if value in index_job(body)]

    def count(self, index: str, value: str) -> int:
        return len(self.by_index(index, value))

    def absorb(self, body: Object) -> None:
        self.deliver("MODIFIED", body)

    def absorb_list(self, bodies: list[Object], version: str) -> bool:
        for body in bodies:
            self.absorb(body)
        return True

    def deliver(self, kind: str, body: Object) -> None:
        key = body["metadata"]["namespace"], body["metadata"]["name"]
        if kind == "DELETED":
            self.objects.pop(key, None)
        else:
            self.objects[key] = body
        for tell in self._tell:
            tell(kind, body)


class Bench:
    def __init__(self) -> None:
        self.caches = {resource: Cache() for resource in (DIJOBS, PODS, SERVICES, CONFIGMAPS)}
        self.woken: list[tuple[JobKey, float]] = []
        self.read_pod = PodCache(size=8)
        self.informers = InformerState(
            caches=self.caches,  # type: ignore[arg-type]  # the part of a cache it uses
            wake=lambda key, delay: self.woken.append((key, delay)),
            follow_pod=self.read_pod.follow,
        )


def pod(name: str = "a-work-0", job: str | None = "a") -> Object:
    labels = {} if job is None else {LABEL_JOB: job}
    return {"metadata": {"name": name, "namespace": "ns", "uid": f"uid-{name}", "labels": labels}}


def test_a_pod_is_read_when_it_changes_and_not_again_at_a_look(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = Bench()
    bench.caches[PODS].deliver("ADDED", pod("a-work-0"))
    bench.informers.observe(PODS, pod("a-work-1"))
    monkeypatch.delattr(Pod, "read")
    pods = [bench.read_pod(raw) for raw in bench.informers.pods(KEY)]
    assert [each.name for each in pods] == ["a-work-0", "a-work-1"]


def test_pods_that_are_alike_share_what_they_have_in_common() -> None:
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
        # Each text anew, as the parser makes them.
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


def test_an_event_of_a_pod_wakes_the_job_its_label_names() -> None:
    bench = Bench()
    bench.caches[PODS].deliver("ADDED", pod())
    bench.caches[SERVICES].deliver("DELETED", pod("di-a"))
    bench.caches[DIJOBS].deliver("ADDED", pod("b", None))
    assert bench.woken == [(KEY, 0.0), (KEY, 0.0), (JobKey("ns", "b"), 0.0)]


def controlled(name: str, job: str, label: str | None) -> Object:
    body = pod(name, label)
    kind = {"apiVersion": API_VERSION, "kind": KIND, "controller": True}
    body["metadata"]["ownerReferences"] = [{**kind, "name": job, "uid": "j"}]
    return body


@pytest.mark.parametrize("label", ["a", "b", None])
def test_a_pod_is_found_under_the_job_that_controls_it(label: str | None) -> None:
    bench = Bench()
    body = controlled("a-work-0", "a", label)
    bench.caches[PODS].deliver("MODIFIED", body)
    assert list(bench.informers.pods(KEY)) == [body]
    assert {key.name for key, _ in bench.woken} == {"a", label or "a"}


def test_an_object_that_names_no_job_wakes_nobody() -> None:
    bench = Bench()
    bench.caches[PODS].deliver("ADDED", pod(job=None))
    assert bench.woken == []


def test_an_own_write_is_known_at_once_and_wakes_nobody() -> None:
    bench = Bench()
    bench.informers.observe(PODS, pod())
    assert [one["metadata"]["name"] for one in bench.informers.pods(KEY)] == ["a-work-0"]
    assert bench.woken == []
    bench.caches[PODS].deliver("MODIFIED", pod())
    assert bench.woken == [(KEY, 0.0)]


def test_a_deleted_object_stays_hidden_while_the_watch_is_behind() -> None:
    bench = Bench()
    bench.caches[PODS].deliver("ADDED", pod())
    bench.informers.forget("uid-a-work-0")
    assert list(bench.informers.pods(KEY)) == []
    bench.caches[PODS].deliver("MODIFIED", pod())
    assert list(bench.informers.pods(KEY)) == []
    successor = {"metadata": {**pod()["metadata"], "uid": "later"}}
    bench.caches[PODS].deliver("DELETED", pod())
    bench.caches[PODS].deliver("ADDED", successor)
    assert list(bench.informers.pods(KEY)) == [successor]


def test_a_deleted_job_is_not_seen_again_while_the_watch_is_behind() -> None:
    bench = Bench()
    bench.caches[DIJOBS].deliver("ADDED", pod("a", None))
    assert bench.informers.job(KEY) is not None
    bench.informers.forget("uid-a")
    assert bench.informers.job(KEY) is None


@pytest.mark.parametrize(("pods", "delay"), [(4, 0.0), (16, 0.0), (100, 0.05), (1000, SETTLE_MAX)])
def test_pods_of_a_large_job_are_looked_at_together(pods: int, delay: float) -> None:
    bench = Bench()
    for number in range(pods):
        bench.caches[PODS].deliver("ADDED", pod(f"p{number}"))
    key, waited = bench.woken[-1]
    assert key == KEY
    assert waited == pytest.approx(delay)


def at(stage: str, name: str, task: str = "work", **metadata: str) -> Object:
    """A pod that has got so far."""
    body = pod(name)
    body["metadata"]["labels"][LABEL_TASK_NAME] = task
    body["metadata"] |= metadata
    if stage == "Ready":
        conditions = [{"type": "Ready", "status": "True"}]
        return {**body, "status": {"phase": "Running", "conditions": conditions}}
    return {**body, "status": {"phase": stage}}


@pytest.mark.parametrize("stage", ["Running", "Ready", "Succeeded"])
def test_who_is_ahead_of_others_of_its_task_is_looked_at_with_them(stage: str) -> None:
    bench = Bench()
    for name in "abc":
        bench.caches[PODS].deliver("ADDED", at("Pending", name))
    bench.caches[PODS].deliver("ADDED", at("Pending", "d", task="other"))
    bench.woken.clear()
    for name in "abc":
        bench.caches[PODS].deliver("MODIFIED", at(stage, name))
    assert bench.woken == [(KEY, APART), (KEY, APART), (KEY, 0.0)]


@pytest.mark.parametrize("stage", ["Failed", "Unknown"])
def test_a_pod_that_fails_is_looked_at_at_once(stage: str) -> None:
    bench = Bench()
    for name in "ab":
        bench.caches[PODS].deliver("ADDED", at("Ready", name))
    bench.woken.clear()
    bench.caches[PODS].deliver("MODIFIED", at(stage, "a"))
    assert bench.woken == [(KEY, 0.0)]


def test_a_pod_that_is_deleted_is_looked_at_at_once() -> None:
    bench = Bench()
    for name in "ab":
        bench.caches[PODS].deliver("ADDED", at("Ready", name))
    bench.woken.clear()
    deleted = at("Pending", "a", deletionTimestamp="2026-01-01T00:00:00Z")
    bench.caches[PODS].deliver("MODIFIED", deleted)
    bench.caches[PODS].deliver("DELETED", deleted)
    assert bench.woken == [(KEY, 0.0), (KEY, 0.0)]


@pytest.mark.parametrize("resource", [PODS, SERVICES])
def test_what_the_operator_deleted_wakes_nobody_when_the_watch_says_so(resource: Resource) -> None:
    bench = Bench()
    for name in ("mine", "lost"):
        bench.caches[resource].deliver("ADDED", pod(name))
    bench.informers.forget("uid-mine")
    bench.woken.clear()
    bench.caches[resource].deliver("DELETED", pod("mine"))
    assert bench.woken == []
    bench.caches[resource].deliver("DELETED", pod("lost"))
    assert bench.woken == [(KEY, 0.0)]


def test_the_end_of_a_job_is_news_also_of_one_taken_for_gone() -> None:
    """Its Workload is given back when its pods are gone."""
    bench = Bench()
    bench.caches[DIJOBS].deliver("ADDED", pod("a", None))
    bench.informers.forget("uid-a")
    bench.woken.clear()
    bench.caches[DIJOBS].deliver("DELETED", pod("a", None))
    assert bench.woken == [(KEY, 0.0)]


def test_the_poll_wakes_every_job() -> None:
    bench = Bench()
    for name in "abc":
        bench.caches[DIJOBS].deliver("ADDED", pod(name, None))
    bench.woken.clear()
    bench.informers.wake_all()
    assert [key.name for key, _ in bench.woken] == ["a", "b", "c"]


def test_who_has_left_workloads_is_looked_at_as_well() -> None:
    """As after a start: the Workload was seen before all that is known of Kueue was there."""
    bench = Bench()
    bench.caches[DIJOBS].deliver("ADDED", pod("a", None))
    workloads = Cache()
    bench.informers.adopt(WORKLOADS, cast("WatchCache", workloads))
    for job in "ab":
        workloads.deliver("ADDED", pod(f"{job}-core", job))
    bench.woken.clear()
    bench.informers.wake_all()
    assert [key.name for key, _ in bench.woken] == ["a", "b"]


OWNER = {"apiVersion": API_VERSION, "kind": KIND, "name": "a", "uid": "u", "controller": True}


def test_a_transformed_pod_keeps_what_decisions_read() -> None:
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
                {"name": "main", "state": {"terminated": {**ended, "message": said[-512:]}}}
            ],
        },
    }


ENDED = {"exitCode": 3, "reason": "Error", "finishedAt": "2026-01-01T00:00:00Z", "message": "no"}
EARLIER = {**ENDED, "finishedAt": "2025-01-01T00:00:00Z", "containerID": "c"}


@pytest.mark.parametrize(
    ("statuses", "failures", "is_down", "code"),
    [
        # One that ran, failed and runs again; the other one failed before.
        ([{"restartCount": 1, "state": {"running": {}}}], 1, False, 3),
        ([{"restartCount": 1, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}], 2, True, 3),
        ([{"restartCount": 0, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}], 1, True, 3),
        ([{"restartCount": 1, "state": {"waiting": {"reason": "ContainerCreating"}}}], 1, True, 3),
        ([{"restartCount": 1, "state": {"waiting": {}}}], 1, True, 3),
        ([{"restartCount": 2, "state": {"terminated": {"exitCode": 0}}}], 2, False, 3),
        (
            [
                {"restartCount": 1, "state": {"running": {}}},
                {
                    "restartCount": 4,
                    "state": {"running": {}},
                    "lastState": {"terminated": {**EARLIER, "exitCode": 4}},
                },
            ],
            5,
            False,
            3,
        ),
        # Nothing failed yet.
        ([{"restartCount": 0, "state": {"running": {}}, "lastState": {}}], 0, False, None),
        ([{"restartCount": 0, "state": {"waiting": {"reason": "ErrImagePull"}}}], 0, False, None),
    ],
)
def test_a_transformed_pod_tells_how_containers_failed_that_go_on(
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


def test_of_sidecars_that_failed_only_what_they_wait_for_is_kept() -> None:
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


def test_of_a_pod_that_waits_to_be_bound_the_only_node_it_may_go_to_is_kept() -> None:
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


def test_why_a_pod_cannot_be_bound_is_kept_and_that_it_was_is_not() -> None:
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


def test_of_a_pod_of_others_that_waits_for_room_what_it_wants_is_kept() -> None:
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


def test_of_a_pod_that_only_carries_our_labels_its_room_is_kept() -> None:
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
def test_the_rank_a_pod_was_told_is_kept_where_its_annotation_says_another(
    note: str, kept: Object
) -> None:
    body = controlled("a-work-0", "a", "a")
    body["metadata"]["annotations"] = {ANNOTATION_RANK: note}
    told = {"name": ENV_RANK, "value": "3"}
    body["spec"] = {"containers": [{"env": [{"name": "X"}, told]}, {}]}
    for variable in kept.get("env", ()):
        variable["value"] = "3"
    assert transform_pod(body)["spec"]["containers"] == [kept, {}]


def test_other_objects_keep_all_but_the_record_of_their_writers() -> None:
    body = {"metadata": {"name": "a", "managedFields": [{}]}, "spec": {"tasks": [{"name": "x"}]}}
    assert transform(body) == {"metadata": {"name": "a"}, "spec": {"tasks": [{"name": "x"}]}}


def test_what_was_taken_for_gone_and_is_not_is_shown_again_after_a_comparison() -> None:
    bench = Bench()
    kept = pod()
    bench.caches[PODS].deliver("ADDED", kept)
    bench.informers.forget(kept["metadata"]["uid"])
    assert bench.informers.pods(KEY) == []
    taken = bench.informers.hidden
    bench.informers.forget("meanwhile")
    bench.informers.reveal(taken)
    assert bench.informers.pods(KEY) == [kept]
    assert bench.informers.hidden == {"meanwhile"}


def test_objects_read_in_a_list_wake_nobody() -> None:
    bench = Bench()
    assert bench.informers.observe_all(PODS, [pod()], "9")
    assert bench.informers.pods(KEY) == [pod()]
    assert bench.woken == []


def test_pods_of_others_that_are_alike_share_all_but_their_names_and_nodes() -> None:
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
