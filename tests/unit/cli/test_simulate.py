"""di simulate: what would become of a job, and what of it cannot be known."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from di_cli.exit_codes import ExitCode
from tests.unit.cli.conftest import Di, Said, ends

Object = dict[str, Any]
FORBIDDEN = {"code": 403, "reason": "Forbidden", "message": "you may not"}
CONFIG = "/api/v1/namespaces/di-system/configmaps/di-operator"


def manifest(gpus: int = 4, **spec: Any) -> Object:
    container = {"name": "di-container", "image": "i", "resources": {"limits": _gpus(gpus)}}
    learner = {"type": "learner", "template": {"spec": {"containers": [container]}}}
    return {
        "apiVersion": "diengine.opendilab.org/v2alpha1",
        "kind": "DIJob",
        "metadata": {"name": "big"},
        "spec": {"preemptible": True, "tasks": [learner], **spec},
    }


def _gpus(count: int) -> dict[str, str]:
    return {"nvidia.com/gpu": str(count)}


class Simulate:
    """Simulates a job on a node of eight GPUs."""

    def __init__(self, di: Di, folder: Path) -> None:
        self.di, self._file = di, folder / "big.yaml"

    def __call__(self, job: Object, *words: str) -> Said:
        self._file.write_text(yaml.safe_dump(job))
        return self.di("simulate", "-f", str(self._file), *words)

    def running(self, name: str, gpus: int, **changes: Any) -> None:
        body = self.di.job(name, placement={"learner": ["gpu-1"]}, **changes)
        body["spec"]["preemptible"] = True
        body["spec"]["tasks"] = manifest(gpus)["spec"]["tasks"]
        body["spec"]["tasks"][0] |= {"name": "learner"}
        self.di.world.put(
            f"/apis/diengine.opendilab.org/v2alpha1/namespaces/rl/dijobs/{name}", body
        )

    def policy(self, name: str) -> None:
        data = {"DI_OPERATOR_POLICY": name, "DI_OPERATOR_POLICY_ARGUMENTS": "{}"}
        self.di.world.put(CONFIG, {"metadata": {"name": "di-operator"}, "data": data})


@pytest.fixture
def simulate(di: Di, tmp_path: Path) -> Simulate:
    di.node("gpu-1", 8)
    return Simulate(di, tmp_path)


def test_a_job_that_fits_shows_its_nodes(simulate: Simulate) -> None:
    simulate.policy("fit")
    simulate.running("x", 4)
    assert simulate(manifest()).lines == [
        "fits now: learner 1 on gpu-1",
        "  changes    no other job",
        "  decided    by the policy fit, the cluster's",
    ]


def test_a_job_that_does_not_fit_shows_the_shortage_and_a_time(simulate: Simulate) -> None:
    simulate.policy("fit")
    began = {"startTime": "2026-03-01T11:00:00Z"}
    simulate.running("x", 4, **began, expectedCompletion=ends(1230))
    simulate.running("y", 2, **began, expectedCompletion=ends(10_830))
    first, when, raised, cost, _ = simulate(manifest()).lines
    assert first.startswith("does not fit now: task learner needs 1 replica, there is room for 0")
    assert raised == "would fit with --priority high: learner 1 on gpu-1"
    assert "y" in cost
    assert first.endswith("closest to one more: gpu-1 lacks 2 nvidia.com/gpu")
    assert when.startswith("would fit in about 20m (0s-11d): when x ends")
    told = json.loads(simulate(manifest(8), "-o", "json").out)
    assert told["wouldFit"] == {
        "seconds": pytest.approx(10_830, abs=30),
        "job": "rl/y",
        "byDeadline": False,
        "between": [0, pytest.approx(1e6, abs=30)],
    }
    assert (told["fits"], told["starts"], told["policy"]) == (False, False, "fit")


def test_the_start_has_the_range_of_the_awaited_end(simulate: Simulate) -> None:
    simulate.policy("fit")
    began = "2026-03-01T11:00:00Z"
    told = ends(1230, earliest=630, latest=1830)
    simulate.running("x", 8, startTime=began, expectedCompletion=told)
    assert simulate(manifest()).lines[1] == "would fit in about 20m (10m-30m): when x ends"
    found = json.loads(simulate(manifest(), "-o", "json").out)["wouldFit"]
    assert found["between"] == [pytest.approx(630, abs=30), pytest.approx(1830, abs=30)]


def test_jobs_whose_ends_do_not_suffice_are_counted(
    simulate: Simulate, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "xyz":
        simulate.running(name, 2, startTime="2026-03-01T11:00:00Z")
    job = manifest(8)
    assert (
        simulate(job, "--policy", "fit")
        .lines[1]
        .startswith("would fit in about 36m (0s-11d): when z")
    )
    monkeypatch.setattr("di_cli.forecasting._MOST_WORK", 6)
    either = "would not fit either when the next 2 jobs of those that say when have ended"
    assert simulate(job, "--policy", "fit").lines[1] == either
    monkeypatch.setattr("di_cli.forecasting._MOST_ENDS", 1)
    assert "when the next job of those" in simulate(job, "--policy", "fit").lines[1]


def test_a_deadline_bounds_the_start(simulate: Simulate) -> None:
    simulate.running("x", 8, startTime="2026-03-01T11:00:00Z", expectedCompletion={})
    assert simulate(manifest(), "--policy", "fit").lines[1].startswith("nobody can say when")
    job = simulate.di.world.objects["/apis/diengine.opendilab.org/v2alpha1/namespaces/rl/dijobs/x"]
    job["spec"]["activeDeadlineSeconds"] = 5450
    lines = simulate(manifest(), "--policy", "fit").lines
    assert lines[1] == "would fit in 30m at the latest: when x's deadline is over"
    assert (
        simulate(manifest(9), "--policy", "fit")
        .lines[0]
        .startswith("does not fit, whatever else runs: task learner needs 1 replica")
    )


def test_flags_change_priority_and_fields_before_the_trial(simulate: Simulate) -> None:
    simulate.policy("fit")
    assert simulate(manifest(9), "--set", "preemptible=false").lines[-1] == (
        "  decided    by the cluster's scheduler, which may choose other nodes"
    )
    told = simulate(manifest(), "--set", "tasks.learner.replicas=2", "--priority", "high")
    assert told.lines[0] == "fits now: learner 2 on gpu-1"
    said = simulate(manifest(), "--set", "tasks.lerner.replicas=2")
    assert (said.code, "no task lerner" in said.err) == (ExitCode.FAILED, True)
    refused = simulate(manifest(), "--set", "backoffLimit=-1")
    assert refused.err.splitlines()[0] == "error: the job would be refused"
    assert "spec.backoffLimit" in refused.err


def test_unreadable_objects_are_named(simulate: Simulate) -> None:
    refusals = simulate.di.world.refusals
    refusals["GET", CONFIG] = FORBIDDEN
    refusals["GET", "/api/v1/pods"] = FORBIDDEN
    assert simulate(manifest()).lines[-2:] == [
        "  not seen   pods of other namespaces; room that they take counts as free",
        "  decided    by the policy goodput, taken for the cluster's, --policy names another",
    ]
    refusals["GET", "/api/v1/nodes"] = FORBIDDEN
    said = simulate(manifest())
    assert said.code == ExitCode.NOT_ALLOWED
    assert said.err.splitlines() == [
        "error: without the cluster's nodes nothing can be said",
        "  you may not list nodes",
        "  try: kubectl auth can-i list nodes",
    ]


def test_a_policy_that_is_not_installed_is_named(simulate: Simulate) -> None:
    simulate.policy("their-own")
    said = simulate(manifest())
    assert said.err.splitlines()[0] == "error: the cluster's policy is not to be had here"
    assert "their-own is not installed" in said.err
    assert simulate(manifest(), "--policy", "fit:{").err.startswith("error: the policy's arguments")


def test_a_manifest_of_two_jobs_is_refused(simulate: Simulate, tmp_path: Path) -> None:
    (tmp_path / "two.yaml").write_text(yaml.safe_dump_all([manifest(), manifest()]))
    said = simulate.di("simulate", "-f", str(tmp_path / "two.yaml"))
    assert "has 2 jobs; one is tried at a time" in said.err


def test_the_missing_operator_package_is_named(
    simulate: Simulate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("di_cli.forecasting.find_spec", lambda _: None)
    assert simulate(manifest()).err.splitlines()[0] == (
        "error: di simulate needs the package di-operator, which is not installed"
    )


def test_jobs_that_would_be_stopped_are_named(simulate: Simulate) -> None:
    simulate.policy("fit")
    data = simulate.di.world.objects[CONFIG]["data"]
    data["DI_OPERATOR_POLICY_ARGUMENTS"] = '{"shares": {"rl": 1, "other": 1}}'
    simulate.running("x", 4)
    simulate.running("y", 4)
    job = {**manifest(), "metadata": {"name": "big", "namespace": "other"}}
    lines = simulate(job).lines
    assert lines[0].startswith("does not fit now: ")
    assert lines[1] == ("would fit when the allocator reconsiders all jobs: learner 1 on gpu-1")
    assert lines[2] == "  stops      rl/y"


def quota(simulate: Simulate, hard: Object, used: Object, **spec: Any) -> None:
    body = {"metadata": {"name": "team"}, "spec": spec, "status": {"hard": hard, "used": used}}
    simulate.di.world.put("/api/v1/namespaces/rl/resourcequotas/team", body)


def test_an_exhausted_quota_is_shown_first(simulate: Simulate) -> None:
    simulate.policy("fit")
    quota(simulate, {"requests.nvidia.com/gpu": "10", "pods": "10"}, {"pods": "2"})
    assert simulate(manifest()).lines[0] == "fits now: learner 1 on gpu-1"
    quota(simulate, {"requests.nvidia.com/gpu": "10"}, {"requests.nvidia.com/gpu": "7"})
    lines = simulate(manifest()).lines
    assert lines[:2] == [
        "does not start: quota team of namespace rl has 3 of 10 requests.nvidia.com/gpu left, the "
        "job needs 4",
        "by the nodes alone it fits now: learner 1 on gpu-1",
    ]
    (told,) = json.loads(simulate(manifest(), "-o", "json").out)["quota"]
    amounts = {"needed": "4", "left": "3", "hard": "10"}
    assert told == {"name": "team", "resource": "requests.nvidia.com/gpu", **amounts}


def test_a_quota_counts_the_pods_that_would_start(simulate: Simulate) -> None:
    quota(simulate, {"pods": "3"}, {"pods": "1"})
    task = manifest(1)["spec"]["tasks"][0] | {"replicas": 3}
    fixed = manifest(preemptible=False, tasks=[task])
    assert simulate(fixed).lines[0] == (
        "does not start: quota team of namespace rl has 2 of 3 pods left, the job needs 3"
    )
    # The allocator starts it with fewer, where capacity for all is missing.
    simulate.policy("fit")
    simulate.running("x", 6)
    elastic = manifest(tasks=[task | {"minReplicas": 2, "maxReplicas": 3}])
    assert simulate(elastic).lines[0] == "fits now: learner 2 on gpu-1"


def test_unknown_parts_of_quotas_are_named(simulate: Simulate) -> None:
    quota(simulate, {"limits.cpu": "1"}, {})
    (unsaid,) = (line for line in simulate(manifest()).lines if "not known" in line)
    assert unsaid.strip().endswith(
        "quota team wants limits.cpu of every pod, which learner does not say; a LimitRange may"
    )
    quota(simulate, {"pods": "0"}, {}, scopes=["BestEffort"])
    assert any("by its scopes; it is left out" in line for line in simulate(manifest()).lines)
    simulate.di.world.refusals["GET", "/api/v1/namespaces/rl/resourcequotas"] = FORBIDDEN
    lines = simulate(manifest()).lines
    assert any("you may not list the quotas of namespace rl" in line for line in lines)
    assert json.loads(simulate(manifest(), "-o", "json").out)["unknown"]


CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
URGENT = {"metadata": {"name": "urgent"}, "value": 1000}


def ordinary(simulate: Simulate, gpus: int, priority: int) -> None:
    """Put a pod of no job on the node."""
    container = {"name": "c", "resources": {"limits": _gpus(gpus)}}
    body = {
        "metadata": {"name": "web", "namespace": "web", "uid": "uid-web"},
        "spec": {"nodeName": "gpu-1", "priority": priority, "containers": [container]},
        "status": {"phase": "Running"},
    }
    simulate.di.world.put("/api/v1/namespaces/web/pods/web", body)


def urgent(**spec: Any) -> Object:
    job = manifest(**{"preemptible": False, **spec})
    job["spec"]["tasks"][0]["template"]["spec"]["priorityClassName"] = "urgent"
    return job


def test_a_priority_class_preempts_pods_of_lower_priority(simulate: Simulate) -> None:
    simulate.di.world.put(f"{CLASSES}/urgent", URGENT)
    ordinary(simulate, 6, 0)
    first, second, third, _ = simulate(urgent()).lines
    assert first.startswith("does not fit now: ")
    assert second == "would fit at the expense of pods of lower priority: learner 1 on gpu-1"
    assert third == "  preempts   some of 1 pod there, as the cluster's scheduler chooses"
    told = json.loads(simulate(urgent(), "-o", "json").out)["preempting"]
    assert told == {"now": {"learner": {"gpu-1": 1}}, "podsOfLowerPriority": 1}


@pytest.mark.parametrize(
    ("job", "priority", "policy"),
    [
        (manifest(preemptible=False), 0, None),
        (urgent(), 1000, None),
        (urgent(), 0, "Never"),
        # The allocator places that one, and preempts no pods by PriorityClass.
        (urgent(preemptible=True), 0, None),
    ],
    ids=["no class", "pods as urgent", "a class that says so", "a job of the allocator"],
)
def test_pods_are_not_preempted(
    simulate: Simulate, job: Object, priority: int, policy: str | None
) -> None:
    simulate.policy("fit")
    simulate.di.world.put(f"{CLASSES}/urgent", {**URGENT, "preemptionPolicy": policy})
    ordinary(simulate, 6, priority)
    lines = simulate(job).lines
    assert lines[0].startswith("does not fit now: ")
    assert not any("lower priority" in line for line in lines)


def test_unreadable_priority_classes_are_named(simulate: Simulate) -> None:
    simulate.di.world.refusals["GET", CLASSES] = FORBIDDEN
    ordinary(simulate, 6, 0)
    lines = simulate(urgent()).lines
    assert any("you may not list PriorityClasses" in line for line in lines)
    assert not any("not known" in line for line in simulate(manifest(preemptible=False)).lines)


def test_high_priority_uses_the_operators_priority_class(simulate: Simulate) -> None:
    data = {"DI_OPERATOR_POLICY": "", "DI_OPERATOR_HIGH_PRIORITY_CLASS": "urgent"}
    simulate.di.world.put(CONFIG, {"metadata": {"name": "di-operator"}, "data": data})
    simulate.di.world.put(f"{CLASSES}/urgent", URGENT)
    ordinary(simulate, 6, 0)
    job = manifest(preemptible=False)
    assert "lower priority" not in simulate(job).out
    assert "at the expense of pods of lower priority" in simulate(job, "--priority", "high").out
