"""TFJobs become DIJobs whose tasks are one cluster of TensorFlow."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from di_api.validation import validate_job
from di_cli.convert.fields import RefusedManifest
from tests.unit.cli.convert.manifests import (
    Object,
    convert_one,
    lost,
    manifests,
    outcome,
    pods,
    pods_of,
    roles,
    run_policy,
    some,
    template,
)

_POD = {"spec": {"containers": [{"name": "tensorflow", "image": "fit"}]}}


def job(specs: dict[str, Object], **spec: Any) -> Object:
    """A TFJob; a role has the same template as the others unless it says another."""
    roles = {name: {"template": _POD, **each} for name, each in specs.items()}
    top = {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "metadata": {"name": "fit"}}
    return {**top, "spec": {"tfReplicaSpecs": roles, **spec}}


def spec_of(manifest: Object) -> Object:
    found: Object = convert_one(manifest).job["spec"]
    return found


def tasks_of(manifest: Object) -> dict[str, Object]:
    return {each["name"]: each for each in spec_of(manifest)["tasks"]}


def why(manifest: Object, path: str) -> list[str]:
    return [each.why for each in convert_one(manifest).comments if each.path == path]


@pytest.mark.proves("from-other-operators.md#tfjob/*")
@pytest.mark.parametrize("chief", ["Chief", "Master"])
def test_each_replica_type_is_a_task_of_one_cluster(chief: str) -> None:
    found = tasks_of(job({chief: {}, "Worker": {"replicas": 3}, "PS": {}, "Evaluator": {}}))
    assert {name: (each["type"], each["replicas"]) for name, each in found.items()} == {
        "chief": ("learner", 1),
        "worker": ("none", 3),
        "ps": ("none", 1),
        "evaluator": ("evaluator", 1),
    }
    assert all(each["processGroup"] == {"framework": "tensorflow"} for each in found.values())
    assert all(each["template"] == _POD for each in found.values())


def test_a_chief_without_servers_is_the_first_worker() -> None:
    manifest = job({"Chief": {}, "Worker": {"replicas": 3}})
    (task,) = spec_of(manifest)["tasks"]
    assert (task["type"], task["name"], task["replicas"]) == ("learner", "worker", 4)
    assert "TF_CONFIG has the type worker" in why(manifest, "spec.tfReplicaSpecs.Chief")[0]
    assert tasks_of(job({"Chief": {}}))["worker"]["replicas"] == 1
    other = {"spec": {"containers": [{"name": "tensorflow", "image": "other"}]}}
    with pytest.raises(RefusedManifest, match="the first worker is the chief"):
        convert_one(job({"Chief": {}, "Worker": {"template": other}}))


def test_servers_without_a_chief_are_refused() -> None:
    with pytest.raises(RefusedManifest, match="parameter servers need a Chief") as refused:
        convert_one(job({"PS": {}, "Worker": {}}))
    assert refused.value.place == "spec.tfReplicaSpecs.PS"
    assert refused.value.remedy == "add a Chief to spec.tfReplicaSpecs"


def test_dynamic_workers_are_elastic_beside_servers() -> None:
    specs: dict[str, Object] = {"Chief": {}, "PS": {}, "Worker": {"replicas": 3}}
    worker = tasks_of(job(specs, enableDynamicWorker=True))["worker"]
    assert worker["processGroup"] == {"framework": "tensorflow", "elastic": True}
    assert (worker["minReplicas"], worker["maxReplicas"]) == (1, 3)
    rigid = job({"Worker": {"replicas": 3}}, enableDynamicWorker=True)
    assert tasks_of(rigid)["worker"]["processGroup"] == {"framework": "tensorflow"}
    assert "fixed size" in why(rigid, "spec.enableDynamicWorker")[0]


@pytest.mark.parametrize(
    ("specs", "policy", "task", "path"),
    [
        (["Chief", "PS"], "AllWorkers", "chief", "spec.successPolicy"),
        (["Chief", "PS"], "", "chief", "spec.successPolicy"),
        (["Worker", "Evaluator"], "AllWorkers", "worker", None),
        (["Worker", "Evaluator"], None, "worker", "spec.tfReplicaSpecs.Worker"),
        (["Evaluator"], None, "evaluator", None),
        (["Evaluator"], "AllWorkers", "evaluator", "spec.successPolicy"),
    ],
)
def test_the_chief_or_all_workers_decide_about_success(
    specs: list[str], policy: str | None, task: str, path: str | None
) -> None:
    several: dict[str, Object] = {
        each: {"replicas": 2} if each == "Worker" else {} for each in specs
    }
    manifest = job(several, **({} if policy is None else {"successPolicy": policy}))
    found = convert_one(manifest)
    assert found.job["spec"]["successPolicy"] == {"tasks": [task], "operator": "All"}
    assert [each.path for each in found.comments] == ([] if path is None else [path])


def test_tasks_with_the_same_restart_policy_share_failure_rules() -> None:
    code = {"restartPolicy": "ExitCode"}
    specs: dict[str, Object] = {
        "Chief": code,
        "Worker": {**code, "replicas": 2},
        "PS": {},
        "Evaluator": code,
    }
    assert spec_of(job(specs))["failurePolicy"]["rules"][1:] == [
        _by_code(["chief", "evaluator"], "1-127", "FailJob"),
        _by_code(["chief", "evaluator"], "128-255", "Restart"),
        _by_code(["worker"], "1-127", "FailJob"),
        _by_code(["worker"], "128-255", "RestartTask"),
        {"tasks": ["ps"], "action": "FailJob"},
    ]


def _by_code(tasks: list[str], codes: str, action: str) -> Object:
    return {
        "tasks": tasks,
        "onExitCodes": {"operator": "In", "values": [codes]},
        "action": action,
    }


def _manifests() -> st.SearchStrategy[Object]:
    templates = template("tensorflow", "tfjob-port")
    specs = st.one_of(
        roles(templates, "Chief", "Worker"),
        roles(templates, "Evaluator", "Worker"),
        roles(templates, "Master", "PS", "Worker"),
    )
    optional = {
        "runPolicy": run_policy(),
        "enableDynamicWorker": st.booleans(),
        "successPolicy": st.sampled_from(["", "AllWorkers"]),
    }
    return manifests("TFJob", some({"tfReplicaSpecs": specs}, optional))


@given(_manifests())
def test_no_field_of_a_tfjob_is_lost(manifest: Object) -> None:
    found = outcome(manifest)
    if isinstance(found, str):
        assert "the first worker is the chief" in found
        return
    assert lost(manifest, found) == []
    assert pods_of(found) == pods(manifest["spec"]["tfReplicaSpecs"])
    assert validate_job(found.job) == []
