"""PyTorchJobs become DIJobs with a process group of torch."""

from __future__ import annotations

import re
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

_POD = {"spec": {"containers": [{"name": "pytorch", "image": "mnist"}]}}


def job(*, master: Object | None = None, worker: Object | None = None, **spec: Any) -> Object:
    """A PyTorchJob; a role has the same template as the other unless it says another."""
    roles = {"Master": master, "Worker": worker}
    specs = {name: {"template": _POD, **each} for name, each in roles.items() if each is not None}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "mnist"},
        "spec": {"pytorchReplicaSpecs": specs, **spec},
    }


def comments(manifest: Object) -> dict[str, str]:
    return {each.path: each.why for each in convert_one(manifest).comments}


def spec_of(manifest: Object) -> Object:
    found: Object = convert_one(manifest).job["spec"]
    return found


@pytest.mark.proves("from-other-operators.md#pytorchjob/*")
def test_a_master_and_its_workers_are_one_group() -> None:
    found = spec_of(job(master={}, worker={"replicas": 3}))
    (task,) = found["tasks"]
    assert task == {
        "type": "learner",
        "replicas": 4,
        "processGroup": {"framework": "torch"},
        "template": _POD,
    }


def test_a_master_of_its_own_template_is_the_leader_of_the_group() -> None:
    other = {"name": "pytorch", "image": "mnist", "env": [{"name": "LOG", "value": "1"}]}
    master = {"template": {"spec": {"containers": [other]}}}
    (task,) = spec_of(job(master=master, worker={"replicas": 3}))["tasks"]
    assert task["podsPerReplica"] == 4
    assert task["template"] == _POD
    patch = {"name": "pytorch", "env": [{"name": "LOG", "value": "1"}]}
    assert task["leaderTemplatePatch"] == {"spec": {"containers": [patch]}}


def test_a_master_that_lacks_a_container_of_the_workers_is_refused() -> None:
    extra = {"spec": {"containers": [*_POD["spec"]["containers"], {"name": "b", "image": "b"}]}}
    with pytest.raises(RefusedManifest, match="cannot express") as refused:
        convert_one(job(master={}, worker={"template": extra}))
    assert refused.value.place == "spec.pytorchReplicaSpecs.Master.template"


@pytest.mark.parametrize(
    ("policy", "rules"),
    [
        ("OnFailure", [{"action": "RestartTask"}]),
        ("Always", [{"action": "RestartTask"}]),
        ("Never", [{"action": "FailJob"}]),
        (
            "ExitCode",
            [
                {"onExitCodes": {"operator": "In", "values": ["1-127"]}, "action": "FailJob"},
                {"onExitCodes": {"operator": "In", "values": ["128-255"]}, "action": "RestartTask"},
            ],
        ),
    ],
)
def test_a_restart_policy_is_failure_rules(policy: str, rules: list[Object]) -> None:
    found = spec_of(job(worker={"restartPolicy": policy}))["failurePolicy"]["rules"]
    assert found[0] == {"onConditions": ["DisruptionTarget"], "action": "Ignore"}
    assert found[1:] == [{"tasks": ["learner"], **rule} for rule in rules]


@pytest.mark.proves("from-other-operators.md#pytorchjob/*")
def test_an_elastic_policy_is_an_elastic_group() -> None:
    elastic = {
        **{"minReplicas": 1, "maxReplicas": 4, "rdzvBackend": "etcd", "rdzvPort": 29400},
        **{"maxRestarts": 3, "metrics": [{"type": "Resource"}]},
    }
    manifest = job(worker={"replicas": 2}, elasticPolicy=elastic)
    found = spec_of(manifest)
    (task,) = found["tasks"]
    assert (task["minReplicas"], task["replicas"], task["maxReplicas"]) == (1, 2, 4)
    assert task["processGroup"] == {"framework": "torch", "elastic": True}
    assert task["scalable"] is True
    (main,) = task["template"]["spec"]["containers"]
    assert main["ports"] == [{"name": "master-port", "containerPort": 29400}]
    assert found["failurePolicy"]["rules"][1]["action"] == "Restart"
    below = [path.removeprefix("spec.elasticPolicy.") for path in comments(manifest)]
    assert below == ["rdzvBackend", "maxRestarts", "metrics"]


def test_replicas_outside_the_elastic_bounds_are_refused() -> None:
    elastic = {"minReplicas": 1, "maxReplicas": 2}
    with pytest.raises(RefusedManifest, match="3 replicas are not between"):
        convert_one(job(worker={"replicas": 3}, elasticPolicy=elastic))


@pytest.mark.parametrize(("given", "count"), [("4", 4), ("gpu", 2), ("auto", 2), ("cpu", None)])
def test_processes_are_a_number_or_one_for_each_gpu(given: str, count: int | None) -> None:
    limits = {"resources": {"limits": {"nvidia.com/gpu": 2}}}
    pod = {"spec": {"containers": [{**_POD["spec"]["containers"][0], **limits}]}}
    manifest = job(worker={"template": pod}, nprocPerNode=given)
    group = spec_of(manifest)["tasks"][0]["processGroup"]
    assert group.get("processesPerReplica") == count
    assert ("spec.nprocPerNode" in comments(manifest)) is (given != "4")


@pytest.mark.proves("from-other-operators.md#fields-of-the-training-operator/*")
def test_a_run_policy_is_fields_of_the_job() -> None:
    scheduling = {"minAvailable": 2, "queue": "train", "priorityClass": "high"}
    policy = {
        **{"cleanPodPolicy": "None", "backoffLimit": 5, "activeDeadlineSeconds": 60},
        **{"ttlSecondsAfterFinished": 9, "suspend": True, "schedulingPolicy": scheduling},
    }
    manifest = job(worker={"replicas": 2}, runPolicy=policy)
    found = spec_of(manifest)
    assert {name: found[name] for name in policy if name != "schedulingPolicy"} == {
        name: value for name, value in policy.items() if name != "schedulingPolicy"
    }
    assert found["scheduling"] == {"gangScheduler": "volcano", "queue": "train"}
    assert found["tasks"][0]["template"]["spec"]["priorityClassName"] == "high"
    assert comments(manifest) == {}


@pytest.mark.parametrize(
    ("scheduler", "found"),
    [
        ("default-scheduler", {"gang": True}),
        ("volcano", {"gangScheduler": "volcano"}),
        ("scheduler-plugins-scheduler", {"gangScheduler": "scheduler-plugins"}),
    ],
)
def test_a_gang_has_the_scheduler_of_its_template(scheduler: str, found: Object) -> None:
    pod = {"spec": {**_POD["spec"], "schedulerName": scheduler}}
    policy = {"schedulingPolicy": {"minAvailable": 1}}
    assert spec_of(job(worker={"template": pod}, runPolicy=policy))["scheduling"] == found


def test_the_container_of_the_program_comes_first_and_its_port_is_renamed() -> None:
    probe = {"tcpSocket": {"port": "pytorchjob-port"}}
    ports = [{"name": "pytorchjob-port", "containerPort": 23456}]
    main = {"name": "pytorch", "image": "mnist", "ports": ports, "readinessProbe": probe}
    pod = {"spec": {"containers": [{"name": "proxy", "image": "proxy"}, main]}}
    manifest = job(worker={"template": pod})
    containers = spec_of(manifest)["tasks"][0]["template"]["spec"]["containers"]
    assert [each["name"] for each in containers] == ["pytorch", "proxy"]
    assert containers[0]["ports"][0]["name"] == "master-port"
    assert containers[0]["readinessProbe"] == {"tcpSocket": {"port": "master-port"}}
    place = "spec.pytorchReplicaSpecs.Worker.template.spec.containers[1].ports[0].name"
    assert [*comments(manifest)] == [place]


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"master": {"replicas": 2}}, "spec.pytorchReplicaSpecs.Master.replicas"),
        ({"worker": {"replicas": "2"}}, "spec.pytorchReplicaSpecs.Worker.replicas"),
        ({"worker": {"restartPolicy": "Often"}}, "spec.pytorchReplicaSpecs.Worker.restartPolicy"),
        ({"worker": {"template": {}}}, "spec.pytorchReplicaSpecs.Worker.template.spec.containers"),
        ({"pytorchReplicaSpecs": {"Chief": {}}}, "spec.pytorchReplicaSpecs.Chief"),
        ({"pytorchReplicaSpecs": {}}, "spec.pytorchReplicaSpecs"),
        ({"worker": {}, "nprocPerNode": "many"}, "spec.nprocPerNode"),
        ({"worker": {}, "runPolicy": []}, "spec.runPolicy"),
    ],
)
def test_an_invalid_field_is_refused_with_its_path(changes: Any, place: str) -> None:
    with pytest.raises(RefusedManifest) as refused:
        convert_one(job(**changes))
    assert refused.value.place == place
    assert refused.value.remedy


def test_a_job_that_the_webhook_would_refuse_is_refused() -> None:
    pod = {"spec": {"containers": [{"name": "pytorch", "imagee": "mnist"}]}}
    with pytest.raises(RefusedManifest, match="did you mean image"):
        convert_one(job(worker={"template": pod}))


def _manifests() -> st.SearchStrategy[Object]:
    templates = template("pytorch", "pytorchjob-port")
    elastic = some(
        {},
        {
            **{"minReplicas": st.just(1), "maxReplicas": st.just(49), "standalone": st.booleans()},
            **{"rdzvBackend": st.sampled_from(["c10d", "etcd"]), "rdzvPort": st.just(29401)},
            **{"rdzvHost": st.just("host"), "rdzvId": st.just("id"), "maxRestarts": st.just(48)},
            **{"nProcPerNode": st.just(47), "metrics": st.just([{"type": "Resource"}])},
        },
    )
    spec = some(
        {"pytorchReplicaSpecs": roles(templates, "Master", "Worker")},
        {
            "runPolicy": run_policy(),
            "elasticPolicy": elastic,
            "nprocPerNode": st.sampled_from(["auto", "cpu", "gpu", "46"]),
        },
    )
    return manifests("PyTorchJob", spec)


@pytest.mark.proves("from-other-operators.md#what-is-common")
@given(_manifests())
def test_no_field_of_a_pytorchjob_is_lost(manifest: Object) -> None:
    found = outcome(manifest)
    if isinstance(found, str):
        assert re.search("leaderTemplatePatch cannot express|elastic group have one", found)
        return
    assert lost(manifest, found) == []
    assert pods_of(found) == pods(manifest["spec"]["pytorchReplicaSpecs"])
    assert validate_job(found.job) == []
