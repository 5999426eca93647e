"""What nodes have left and what pods take, read from the API server's objects."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from di_api.spec import Framework, ProcessGroup, Task, TaskType
from di_api.validation import load_leniently
from di_operator.allocator.model.job import WAIT, JobInfo, NodeList
from di_operator.allocator.model.node import Constraints, NodeInfo, read_constraints
from di_operator.allocator.model.resources import in_units, pod_request, read_resources
from di_operator.allocator.observe.cluster_reader import ClusterReader
from di_operator.allocator.observe.inventory import KnownJob, read_job, read_node, read_task
from di_operator.allocator.observe.report_cache import Reports
from di_operator.lifecycle.observed.specs import read_spec

Object = dict[str, Any]


def container(**requests: str) -> Object:
    return {"resources": {"requests": requests}}


def raw_node(name: str = "n", **more: Any) -> Object:
    return {
        "metadata": {"name": name, "labels": {"zone": "a"}},
        "spec": more.pop("spec", {}),
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}, **more},
    }


def raw_pod(node: str | None, *containers: Object, phase: str = "Running", **more: Any) -> Object:
    spec = {"containers": list(containers), **({"nodeName": node} if node else {})}
    return {"metadata": {"labels": {}, **more}, "spec": spec, "status": {"phase": phase}}


def read(nodes: list[Object], pods: list[Object]) -> dict[str, NodeInfo]:
    reader = ClusterReader(read_spec)
    for number, found in enumerate(nodes):
        reader.put_node({**found, "metadata": {**found["metadata"], "uid": f"node-{number}"}})
    for number, found in enumerate(pods):
        reader.put_other({**found, "metadata": {**found["metadata"], "uid": f"pod-{number}"}})
    snapshot = reader.read(granted={}, now=datetime(2025, 6, 1, tzinfo=UTC))
    assert not snapshot.unreadable
    return dict(snapshot.nodes)


def test_free_capacity_is_allocatable_minus_requests_of_other_pods() -> None:
    pods = [
        raw_pod("n", container(cpu="500m", memory="1Gi"), container(cpu="1")),
        raw_pod("n", container(cpu="1"), phase="Succeeded"),
        raw_pod("n", container(cpu="1"), phase="Failed"),
        raw_pod("elsewhere", container(cpu="1")),
        raw_pod(None, container(cpu="1"), phase="Pending"),
        raw_pod("n", container(cpu="250m"), deletionTimestamp="2025-01-01T00:00:00Z"),
    ]

    node = read([raw_node()], pods)["n"]

    assert node.total["cpu"] == 4000
    assert node.free["cpu"] == 4000 - 1500 - 250
    assert node.free["memory"] == 7 * 2**30 * 1000
    assert node.free["pods"] == 108_000


def test_nodes_are_sorted_and_never_have_negative_capacity() -> None:
    found = read([raw_node(name) for name in "bca"], [raw_pod("a", container(cpu="9"))])

    assert list(found) == ["a", "b", "c"]
    assert found["a"].free["cpu"] == 0


@pytest.mark.parametrize(
    ("spec", "cpu"),
    [
        ({"containers": [container(cpu="1"), container(cpu="2")]}, 3000),
        ({"containers": [{"resources": {"limits": {"cpu": "2"}}}]}, 2000),
        (
            {"containers": [{"resources": {"limits": {"cpu": "2"}, "requests": {"cpu": "1"}}}]},
            1000,
        ),
        ({"containers": [container(cpu="1")], "initContainers": [container(cpu="3")]}, 3000),
        (
            {
                "containers": [container(cpu="1")],
                "initContainers": [container(cpu="500m") | {"restartPolicy": "Always"}],
            },
            1500,
        ),
        (
            {
                "containers": [container(cpu="1")],
                "initContainers": [
                    container(cpu="1") | {"restartPolicy": "Always"},
                    container(cpu="2"),
                ],
            },
            3000,
        ),
        ({"containers": [container(cpu="1")], "overhead": {"cpu": "250m"}}, 1250),
        ({"containers": [container(cpu="1")], **container(cpu="4")}, 4000),
        ({"containers": [{}]}, 0),
    ],
)
def test_a_pods_request_is_computed_as_the_scheduler_does(spec: Object, cpu: int) -> None:
    request = pod_request(spec)

    assert request.get("cpu", 0) == cpu
    assert request["pods"] == 1000


def taint(key: str, value: str = "", effect: str = "NoSchedule") -> Object:
    return {"key": key, "value": value, "effect": effect}


def admits(pod: Object, **node: Any) -> bool:
    return read_constraints(pod).admit(read([raw_node(**node)], [])["n"])


@pytest.mark.parametrize(
    ("toleration", "admitted"),
    [
        ({}, False),
        ({"key": "gpu", "operator": "Exists"}, True),
        ({"key": "gpu", "value": "a100"}, True),
        ({"key": "gpu", "value": "v100"}, False),
        ({"key": "gpu", "value": "a100", "effect": "NoExecute"}, False),
        ({"operator": "Exists"}, True),
        ({"key": "other", "operator": "Exists"}, False),
    ],
)
def test_a_taint_excludes_pods_without_the_toleration(toleration: Object, admitted: bool) -> None:
    pod = {"tolerations": [toleration]} if toleration else {}

    assert admits(pod, spec={"taints": [taint("gpu", "a100")]}) is admitted


def test_a_prefer_no_schedule_taint_admits_pods() -> None:
    assert admits({}, spec={"taints": [taint("busy", effect="PreferNoSchedule")]})


def test_a_cordoned_or_unready_node_admits_no_pod() -> None:
    assert not admits({}, spec={"unschedulable": True})
    assert not admits({}, conditions=[{"type": "Ready", "status": "Unknown"}])
    assert admits({}, conditions=[{"type": "Ready", "status": "True"}])


def affinity(*terms: Object) -> Object:
    required = {"nodeSelectorTerms": list(terms)}
    key = "requiredDuringSchedulingIgnoredDuringExecution"
    return {"affinity": {"nodeAffinity": {key: required}}}


def expression(key: str, operator: str, *values: str) -> Object:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


@pytest.mark.parametrize(
    ("pod", "admitted"),
    [
        ({"nodeSelector": {"zone": "a"}}, True),
        ({"nodeSelector": {"zone": "b"}}, False),
        (affinity(expression("zone", "In", "a", "b")), True),
        (affinity(expression("zone", "NotIn", "a")), False),
        (affinity(expression("zone", "Exists")), True),
        (affinity(expression("rack", "DoesNotExist")), True),
        (affinity(expression("zone", "DoesNotExist")), False),
        (affinity(expression("zone", "Gt", "1")), False),
        (affinity(expression("zone", "Near", "a")), False),
        (affinity(expression("zone", "In", "b"), expression("zone", "In", "a")), True),
        (affinity({}), False),
        (
            affinity(
                {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}
            ),
            True,
        ),
    ],
)
def test_selectors_and_required_affinity_limit_the_nodes(pod: Object, admitted: bool) -> None:
    assert admits(pod) is admitted


@pytest.mark.parametrize(
    ("operator", "bound", "admitted"),
    [("Gt", "7", True), ("Gt", "8", False), ("Lt", "9", True), ("Lt", "x", False)],
)
def test_labels_are_compared_as_whole_numbers(operator: str, bound: str, admitted: bool) -> None:
    node = NodeInfo(name="n", total={}, free={}, labels={"gpus": "8"})
    pod = affinity(expression("gpus", operator, bound))

    assert read_constraints(pod).admit(node) is admitted


def test_a_task_without_bounds_has_a_fixed_size() -> None:
    spec = {"containers": [container(cpu="1")], "nodeSelector": {"zone": "a"}}
    task = Task(name="x", type=TaskType.COLLECTOR, replicas=3, template={"spec": spec})

    info = read_task(task)

    assert (info.minimum, info.replicas, info.maximum) == (3, 3, 3)
    assert info.resources == {"cpu": 1000, "pods": 1000}
    assert info.constraints == Constraints(selector=(("zone", "a"),))
    assert info.comes_and_goes


def test_replicas_of_several_pods_count_pods_of_the_larger_size() -> None:
    spec = {"containers": [{**container(cpu="1"), "name": "c"}]}
    patch = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "3"}}}]}}
    info = read_task(
        Task(
            name="x",
            type=TaskType.NONE,
            replicas=2,
            min_replicas=1,
            max_replicas=5,
            pods_per_replica=4,
            template={"spec": spec},
            leader_template_patch=patch,
        )
    )
    assert (info.minimum, info.replicas, info.maximum, info.unit) == (4, 8, 20, 4)
    assert info.resources == {"cpu": 3000, "pods": 1000}
    assert info.comes_and_goes


@pytest.mark.parametrize("elastic", [True, False])
def test_members_of_an_elastic_group_come_and_go(elastic: bool) -> None:
    group = ProcessGroup(framework=Framework.NONE, elastic=elastic)
    task = Task(
        name="x", type=TaskType.LEARNER, replicas=2, process_group=group, template={"spec": {}}
    )
    assert read_task(task).elastic is elastic
    assert read_task(task).comes_and_goes is elastic


NOW = datetime(2025, 6, 1, 12, tzinfo=UTC)
REPORTED = {
    "learners": 2,
    "initBatchSize": 64,
    "restoreSeconds": 20.0,
    "observations": [
        {"nodes": 1, "replicas": 2, "samples": 32, "computing": 0.1, "iteration": 0.2}
    ],
}


def known_job(*tasks: Object, report: Object | None = None, **spec: Any) -> KnownJob:
    """A preemptible job whose tasks have these fields."""
    template = {"spec": {"containers": [{"name": "di-container", "image": "x"}]}}
    learner = {"type": "learner", "replicas": 1, "template": template}
    spec = {"tasks": [{**learner, **task} for task in tasks], "preemptible": True, **spec}
    metadata = {"namespace": "rl", "name": "x", "creationTimestamp": "2025-06-01T11:00:00Z"}
    job = {"metadata": metadata, "spec": spec, "status": {"reschedules": 3}}
    found = None if report is None else Reports().read("x", {**REPORTED, **report})
    return read_job(job, load_leniently(spec), report=found)


def read_info(reported_at: datetime, held: NodeList) -> JobInfo:
    tasks: list[Object] = [{"maxReplicas": 8}, {"type": "collector", "maxReplicas": 9}]
    known = known_job(*tasks, report={"reportedAt": reported_at.isoformat()}, priority="high")
    return known.at(NOW, held=held, attained=7.0)


def test_a_job_is_read_with_its_report() -> None:
    info = read_info(NOW, WAIT)

    assert (info.key, info.priority, info.age, info.restarts) == ("rl/x", 1, 3600.0, 3)
    assert (info.preemptible, info.attained, info.explored) == (True, 7.0, 2)
    assert info.model is not None
    assert info.restoring == REPORTED["restoreSeconds"]
    assert [task.maximum for task in info.tasks] == [8, 9]


def test_a_trial_is_read_with_the_sweep_that_controls_it() -> None:
    owner = {
        "apiVersion": "diengine.opendilab.org/v2alpha1",
        "kind": "DISweep",
        "uid": "sweep-uid",
        "controller": True,
    }
    containers = [{"name": "di-container", "image": "x"}]
    task = {"type": "learner", "template": {"spec": {"containers": containers}}}
    for owners, uid in (([owner], "sweep-uid"), ([{**owner, "controller": False}], ""), ([], "")):
        job = {
            "metadata": {
                **{"namespace": "rl", "name": "x", "creationTimestamp": "2026-01-01T12:00:00Z"},
                **{"labels": {"diengine/sweep": "other"}, "ownerReferences": owners},
            }
        }
        found = read_job(job, load_leniently({"tasks": [task]}), report=None)
        assert found.info.sweep == uid


def bounds_of_learners(*learners: dict[str, int | None]) -> list[tuple[int, int]]:
    named = ({"name": f"l{at}", "replicas": 2, **one} for at, one in enumerate(learners))
    info = known_job(*named).info
    assert info.scaled.type is TaskType.LEARNER
    assert [task.name for task in info.tasks if task.varies] in ([], [info.scaled.name])
    return [(task.minimum, task.maximum) for task in info.tasks]


def test_the_first_learner_task_with_bounds_is_the_scaled_one() -> None:
    wide: dict[str, int | None] = {"minReplicas": 1, "maxReplicas": 8}

    assert bounds_of_learners(wide, wide) == [(1, 8), (2, 2)]
    assert bounds_of_learners({}, wide, wide) == [(2, 2), (1, 8), (2, 2)]
    assert bounds_of_learners({}, {}) == [(2, 2), (2, 2)]


def test_learners_without_recent_reports_do_not_grow() -> None:
    held = NodeList((("learner", ("n", "n")), ("collector", ("n",))))

    assert [task.maximum for task in read_info(NOW - timedelta(hours=1), held).tasks] == [2, 9]
    assert [task.maximum for task in read_info(NOW, held).tasks] == [8, 9]
    assert [task.maximum for task in read_info(NOW - timedelta(hours=1), WAIT).tasks] == [8, 9]


def test_amounts_are_exact_to_a_thousandth_and_rounded_up() -> None:
    assert read_resources({"cpu": "0.1", "memory": "1500M", "x": "1n"}) == {
        "cpu": 100,
        "memory": 1_500_000_000_000,
        "x": 1,
    }
    assert in_units(1500) == "1.5"
    assert in_units(2_000_000) == "2000"


def test_amounts_out_of_range_are_clamped() -> None:
    most = (2**63 - 1) * 1000

    assert read_resources({"cpu": "1e99", "memory": "9" * 200, "x": "-1", "y": None}) == {
        "cpu": most,
        "memory": most,
        "x": 0,
    }


def test_the_type_of_a_node_is_the_value_of_the_configured_label() -> None:
    labelled = raw_node("a")
    labelled["metadata"] |= {"labels": {"gpu": "fast"}, "uid": "1"}
    reader = ClusterReader(read_spec, kind_label="gpu")
    reader.put_node(labelled)
    snapshot = reader.read(granted={}, now=NOW)

    assert snapshot.nodes["a"].kind == snapshot.now["a"].kind == "fast"
    assert read_node(labelled, kind_label="other").kind == read_node(raw_node()).kind == ""
    assert read_node(labelled).kind == ""


def test_a_measurement_on_one_node_type_is_known_for_that_type_alone() -> None:
    info = known_job({}, report={"kind": "fast"}).info

    assert info.model is None
    assert set(info.by_kind) == {"fast"}
