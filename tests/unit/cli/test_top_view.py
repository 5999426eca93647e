"""Use, requests and limits of pods in the table of `di top`."""

from __future__ import annotations

from typing import Any

from di_cli.render.table import Table, fitted
from di_cli.views.top import by_job, by_pod, optional, resources_of, unmeasured
from tests.unit.cli.conftest import pod

Object = dict[str, Any]


def collector(index: int, **resources: Object) -> Object:
    found = pod("x", "collector", index, index)
    found["spec"]["containers"][0]["resources"] = resources
    return found


def measured(index: int, cpu: str, memory: str) -> Object:
    usage = {"cpu": cpu, "memory": memory}
    return {
        "metadata": {"name": f"x-collector-{index}", "namespace": "rl"},
        "containers": [{"usage": usage}],
    }


def test_limits_are_shown_beside_requests() -> None:
    both = {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"memory": "2Gi"}}
    pods = [collector(0, **both), collector(1, limits={"cpu": "2", "memory": "1Gi"})]
    header, rows = by_pod(pods, [measured(0, "500m", "64Mi"), measured(1, "0", "1Mi")])
    assert header == [*("POD", "TASK", "CPU", "REQUEST", "LIMIT", "MEMORY", "REQUEST", "LIMIT")]
    assert [row[2:] for row in rows] == [
        ["0.50", "1.00", "", "64Mi", "1024Mi", "2048Mi"],
        # A limit alone is the request as well.
        ["0.00", "2.00", "2.00", "1Mi", "1024Mi", "1024Mi"],
        # One pod without a limit of processors: together they have none.
        ["0.50", "3.00", "", "65Mi", "2048Mi", "3072Mi"],
    ]


def test_a_narrow_terminal_keeps_names_and_use() -> None:
    both = {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "2", "memory": "2Gi"}}
    header, rows = by_pod([collector(0, **both)], [measured(0, "500m", "64Mi")])
    table = Table(header=header, rows=rows, optional=optional(header))
    assert fitted(table, 76).header == header
    narrow = ["POD", "TASK", "CPU", "REQUEST", "MEMORY", "REQUEST"]
    assert fitted(table, 60).header == narrow
    assert fitted(table, 45).header == ["POD", "TASK", "CPU", "MEMORY"]


def test_a_pod_without_a_measurement_has_no_zeros() -> None:
    pods = [collector(0, requests={"cpu": "1"}), collector(1), collector(2)]
    pods[2]["status"]["phase"] = "Pending"
    metrics = [measured(0, "500m", "64Mi")]
    header, rows = by_pod(pods, metrics)
    assert header == ["POD", "TASK", "CPU", "REQUEST", "MEMORY", "REQUEST"]
    assert [row[0] for row in rows][-1] == "3 pods, 1 measured"
    assert [row[2:] for row in rows] == [
        ["0.50", "1.00", "64Mi", ""],
        ["", "", "", ""],
        ["", "", "", ""],
        ["0.50", "1.00", "64Mi", ""],
    ]
    assert unmeasured(pods, metrics) == ["x-collector-1"]
    assert [row[0] for row in by_pod(pods, [])[1]][-1] == "3 pods"


def test_pods_that_have_ended_are_in_no_sum() -> None:
    pods = [collector(index, requests={"cpu": "1"}) for index in range(3)]
    pods[2]["status"]["phase"] = "Succeeded"
    assert [row[3] for row in by_pod(pods, [])[1]] == ["1.00", "1.00", "1.00", "2.00"]


def test_jobs_have_the_sums_of_their_pods() -> None:
    pods = [collector(index, requests={"cpu": "1"}) for index in range(3)]
    pods[2]["status"]["phase"] = "Failed"
    pods += [pod("a", "learner", 0, 0), pod("a", "learner", 1, 1)]
    metrics = [measured(0, "500m", "64Mi"), measured(1, "1", "64Mi"), measured(2, "1", "64Mi")]
    header, rows = by_job(pods, metrics, {("rl", "a-learner-0"): 80.0, ("rl", "a-learner-1"): 40.0})
    assert header == [*("JOB", "PODS", "CPU", "REQUEST", "MEMORY", "REQUEST", "GPUS", "USED")]
    assert rows == [
        ["a", "2", "", "", "", "", "8", "60%"],
        ["x", "2", "1.50", "2.00", "128Mi", "", "", ""],
    ]


def test_jobs_of_one_name_in_two_namespaces_have_rows_of_their_own() -> None:
    pods = [pod("a", "learner", 0, 0), pod("a", "learner", 0, 0)]
    pods[1]["metadata"]["namespace"] = "ml"
    usage = {"cpu": "2", "memory": "64Mi"}
    of_second = {"metadata": {"name": "a-learner-0", "namespace": "ml"}}
    metrics = [{**of_second, "containers": [{"usage": usage}]}]
    header, rows = by_job(pods, metrics, {("rl", "a-learner-0"): 80.0}, namespaces=True)
    assert header[:3] == ["NAMESPACE", "JOB", "PODS"]
    assert rows == [
        ["ml", "a", "1", "2.00", "", "64Mi", "", "4", ""],
        ["rl", "a", "1", "", "", "", "", "4", "80%"],
    ]


def test_requests_are_those_of_all_that_runs_at_the_same_time() -> None:
    found = collector(0, requests={"cpu": "1"})
    one = {"requests": {"cpu": "500m", "memory": "1Gi"}}
    found["spec"]["initContainers"] = [
        {"name": "downloads", "resources": one},
        {"name": "sidecar", "restartPolicy": "Always", "resources": one},
    ]
    assert resources_of(found)[0] == (1.5, 1 << 30)
    found["spec"]["resources"] = {"requests": {"cpu": "4"}}
    assert resources_of(found)[0] == (4, 1 << 30)
