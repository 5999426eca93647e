"""di queue and di allocation: pending jobs and the holders of resources."""

from __future__ import annotations

import json
from typing import Any

import pytest

from di_cli.exit_codes import ExitCode
from tests.unit.cli.conftest import JOBS, PODS, Di, node, pod

Object = dict[str, Any]
FORBIDDEN = {"code": 403, "reason": "Forbidden", "message": "you may not"}
CONFIG = "/api/v1/namespaces/di-system/configmaps/di-operator"


def learner(di: Di, name: str, phase: str = "Pending", *, gpus: int = 4, **spec: Any) -> None:
    """Put a preemptible job of one learner into the cluster."""
    status: Object = {} if phase == "Pending" else {"placement": {"learner": ["gpu-1"]}}
    if phase != "Pending":
        status["startTime"] = "2026-03-01T11:00:00Z"
    body = di.job(name, phase, **status)
    task = body["spec"]["tasks"][0]
    task["template"]["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] = str(gpus)
    body["spec"] |= {"preemptible": True, "tasks": [task], **spec}
    di.world.put(f"{JOBS}/{name}", body)


@pytest.fixture
def busy(di: Di) -> Di:
    """A node of eight GPUs that a job has all of, which is at 62 of 100 steps after an hour."""
    settings = {"DI_OPERATOR_POLICY": "fit"}
    di.world.put(CONFIG, {"metadata": {"name": "di-operator"}, "data": settings})
    di.node("gpu-1", 8)
    # Of high priority, so that no job that waits takes its place.
    learner(di, "runs", "Running", gpus=8, priority="high")
    return di


def test_the_queue_shows_the_allocators_order_and_starts(busy: Di) -> None:
    learner(busy, "small")
    learner(busy, "large", gpus=8)
    learner(busy, "urgent", priority="high")
    learner(busy, "later", suspend=True)
    header, *rows = (line.split() for line in busy("queue").lines)
    assert header[:2] == ["NAME", "WAITS"]
    assert [row[0] for row in rows] == ["urgent", "large", "later", "small"]
    ends = "in about 36m, after runs"
    starts = {line.split()[0]: line.endswith(ends) for line in busy("queue").lines[1:]}
    assert starts == {"urgent": True, "large": False, "later": False, "small": True}
    told = json.loads(busy("queue", "-o", "json").out)["items"]
    expected = {"after": "rl/runs", "byDeadline": False}
    assert [each["starts"] for each in told] == [
        pytest.approx({"seconds": 2206, **expected}, abs=30) if each else None
        for each in (True, False, False, True)
    ]
    assert busy("queue", "-o", "name").lines[0] == "dijob/urgent"


def test_a_high_job_in_place_of_lower_ones_starts_at_the_next_allocation(busy: Di) -> None:
    learner(busy, "runs", "Running", gpus=8)
    learner(busy, "urgent", priority="high")
    assert busy("queue").lines[1].endswith("at the next look")


def test_a_job_that_fits_starts_at_the_next_allocation(busy: Di) -> None:
    busy.node("gpu-2", 4)
    learner(busy, "small")
    assert busy("queue").lines[1].endswith("at the next look")


def test_an_empty_queue_is_reported(busy: Di) -> None:
    assert busy("queue").out == "no job waits in namespace rl\n"
    assert busy("queue", "-A").out == "no job waits in any namespace\n"
    assert json.loads(busy("queue", "-o", "json").out) == {"items": []}


def test_without_nodes_the_queue_has_no_starts(busy: Di, monkeypatch: pytest.MonkeyPatch) -> None:
    learner(busy, "small")
    refusals = busy.world.refusals
    refusals["GET", "/api/v1/nodes"] = FORBIDDEN
    refusals["GET", "/apis/diengine.opendilab.org/v2alpha1/dijobs"] = FORBIDDEN
    said = busy("queue")
    assert said.lines[1].split()[0] == "small"
    assert said.err == "when they start cannot be told: you may not list nodes\n"
    monkeypatch.setattr("di_cli.forecasting.find_spec", lambda _: None)
    assert "without the package di-operator" in busy("queue").err


QUEUES = {"queues": {"rl": {"weight": 3, "guarantee": {"nvidia.com/gpu": 4}}, "web": {"weight": 1}}}


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"DI_OPERATOR_POLICY_ARGUMENTS": "{"}, "the policy's arguments are no JSON"),
        ({"DI_OPERATOR_POLICY_ARGUMENTS": '{"backfil": false}'}, "policy"),
        ({"DI_OPERATOR_POLICY": "gone"}, "policy"),
    ],
)
def test_what_waits_is_listed_although_the_policy_is_invalid(
    busy: Di, settings: dict[str, str], why: str
) -> None:
    learner(busy, "small")
    busy.world.objects[CONFIG]["data"] |= settings
    said = busy("queue")
    assert said.code == 0
    assert "small" in said.out
    assert said.err.startswith("when they start cannot be told: ")
    assert why in said.err
    assert busy("queue", "--policy", "gone").code != 0


def test_quotas_are_shown_by_namespace(busy: Di) -> None:
    busy.world.objects[CONFIG]["data"]["DI_OPERATOR_POLICY_ARGUMENTS"] = json.dumps(QUEUES)
    header, *rows = (line.split() for line in busy("queue", "--quotas", "-A").lines)
    assert header == ["NAMESPACE", "WEIGHT", "RESOURCE", "GUARANTEE", "QUOTA", "USED", "BORROWED"]
    assert rows == [
        ["rl", "3", "nvidia.com/gpu", "4", "-", "8", "4"],
        ["web", "1", "nvidia.com/gpu", "-", "-", "0", "0"],
    ]
    (own,) = json.loads(busy("queue", "--quotas", "-o", "json").out)["items"]
    assert (own["namespace"], own["guarantee"], own["quota"], own["borrowed"]) == ("rl", 4, None, 4)
    assert busy("queue", "--quotas", "-A", "-o", "name").lines == ["namespace/rl", "namespace/web"]


def test_missing_queues_are_reported(busy: Di) -> None:
    assert busy("queue", "--quotas").out == "no queue names namespace rl\n"
    assert busy("queue", "--quotas", "-A").out == "there are no queues\n"


def test_quotas_need_the_allocators_settings(busy: Di) -> None:
    busy.world.refusals["GET", CONFIG] = FORBIDDEN
    said = busy("queue", "--quotas")
    assert said.code == ExitCode.FAILED
    assert "you may not read its settings" in said.err


def test_a_map_has_a_cell_for_each_gpu_and_a_letter_for_each_job(di: Di) -> None:
    di.node("gpu-1", 8)
    di.pod("a", "learner", 0, 0)
    di.pod("b", "learner", 0, 0)
    ended = pod("c", "learner", 0, 0, phase="Succeeded")
    di.world.put(f"{PODS}/c-learner-0", ended)
    away = node("gpu-2", 2)
    away["spec"] = {"unschedulable": True}
    di.world.put("/api/v1/nodes/gpu-2", away)
    assert di("allocation").lines == [
        "NODE   nvidia.com/gpu  HELD",
        "gpu-1  AAAABBBB        8/8",
        "gpu-2  xx              0/2  cordoned",
        "",
        "A  rl/a  4 on 1 node",
        "B  rl/b  4 on 1 node",
        "·  free  0 of 10",
    ]
    told = json.loads(di("allocation", "-o", "json").out)
    assert told["resource"] == "nvidia.com/gpu"
    assert told["nodes"][0]["jobs"] == {"rl/a": 4, "rl/b": 4}
    assert told["nodes"][1] == {
        "name": "gpu-2",
        "total": 2,
        "free": 0,
        "jobs": {},
        "others": 0,
        "note": "cordoned",
    }


def test_a_cell_of_a_large_node_is_several_gpus(di: Di) -> None:
    di.node("gpu-1", 480)
    di.pod("a", "learner", 0, 0)
    lines = di("allocation").lines
    assert lines[1] == f"gpu-1  A{'·' * 47}  4/480"
    assert lines[-1] == "·  free  476 of 480; each cell is 10"


def test_a_cluster_without_gpus_shows_cpus_or_the_requested_resource(di: Di) -> None:
    assert di("allocation").out == "no node has any cpu\n"
    di.world.put("/api/v1/nodes/n", {**node("n", 0), "status": {"allocatable": {"cpu": "2"}}})
    assert di("allocation").lines[1] == "n     ··   0/2"
    said = di("allocation", "--resource", "example.org/tpu")
    assert said.out == "no node has any example.org/tpu\n"


def test_a_map_needs_nodes_and_names_unseen_pods(di: Di) -> None:
    di.node("gpu-1", 1)
    di.world.refusals["GET", "/api/v1/pods"] = FORBIDDEN
    said = di("allocation")
    assert said.err == "not seen: pods of other namespaces; what they hold counts as free\n"
    di.world.refusals["GET", "/api/v1/nodes"] = FORBIDDEN
    assert di("allocation").code == ExitCode.NOT_ALLOWED
