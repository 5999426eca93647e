"""RayClusters and RayJobs become DIJobs with a task for the head and for each group of workers."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from di_api.validation import validate_job
from di_cli.convert.fields import RefusedManifest
from tests.unit.cli.convert.manifests import (
    WORDS,
    Object,
    convert_one,
    lost,
    manifests,
    outcome,
    some,
    template,
)

_VERSION = "ray.io/v1"
_OVERWRITES = {"ray.io/overwrite-container-cmd": "true"}


def group(name: str = "", *, parameters: Any = None, container: Any = None, **more: Any) -> Object:
    """A head, or a group of workers if it has a name."""
    pod = {"spec": {"containers": [{"name": "ray", "image": "x", **(container or {})}]}}
    named = {"groupName": name} if name else {}
    return {**named, "rayStartParams": parameters or {}, "template": pod, **more}


def cluster(*workers: Object, head: Object | None = None, **spec: Any) -> Object:
    """The spec of a RayCluster."""
    return {"headGroupSpec": head or group(), "workerGroupSpecs": [*workers], **spec}


def raycluster(*workers: Object, **spec: Any) -> Object:
    top = {"apiVersion": _VERSION, "kind": "RayCluster", "metadata": {"name": "r"}}
    return {**top, "spec": cluster(*workers, **spec)}


def rayjob(of: Object | None = None, **spec: Any) -> Object:
    top = {"apiVersion": _VERSION, "kind": "RayJob", "metadata": {"name": "r"}}
    fields = {"entrypoint": "python a.py", "rayClusterSpec": of or cluster(), **spec}
    return {**top, "spec": {name: value for name, value in fields.items() if value is not None}}


def spec_of(manifest: Object) -> Object:
    found: Object = convert_one(manifest).job["spec"]
    return found


def comments(manifest: Object) -> list[str]:
    return [each.path for each in convert_one(manifest).comments]


def arguments(task: Object) -> list[str]:
    found: list[str] = task["template"]["spec"]["containers"][0]["args"]
    return found


def test_workers_join_the_head_by_its_service() -> None:
    head, worker = spec_of(raycluster(group("cpu", replicas=3, numOfHosts=2)))["tasks"]
    assert head["service"] == {"ports": [{"name": "gcs", "port": 6379, "targetPort": 6379}]}
    assert (worker["name"], worker["replicas"], worker["podsPerReplica"]) == ("cpu", 3, 2)
    assert worker["dependsOn"] == [head["name"]] == ["head"]
    assert "$DI_HEAD_SERVICE" in arguments(worker)[0]


@pytest.mark.proves("from-other-operators.md#rayjob/*")
def test_the_head_of_a_rayjob_runs_the_entrypoint_and_ends_the_job() -> None:
    spec = spec_of(rayjob(backoffLimit=2, ttlSecondsAfterFinished=5, activeDeadlineSeconds=6))
    assert spec["successPolicy"]["tasks"] == ["head"]
    assert (spec["backoffLimit"], spec["ttlSecondsAfterFinished"]) == (2, 5)
    assert spec["activeDeadlineSeconds"] == 6
    assert "python a.py" in arguments(spec["tasks"][0])
    assert spec_of(rayjob())["backoffLimit"] == 0


def test_the_scripts_give_ray_its_parameters_and_run_the_entrypoint(tmp_path: Path) -> None:
    """By a shell, with a program in place of Ray."""
    ray = tmp_path / "ray"
    ray.write_text('#!/bin/sh\nfor each in "$@"; do echo "<$each>"; done\n')
    ray.chmod(0o755)
    head = group(parameters={"dashboard-host": "0.0.0.0", "resources": '{"a b": 1}'})
    entry = "echo 'one two' && echo $HOME"
    spec = spec_of(rayjob(cluster(group("w", replicas=1), head=head), entrypoint=entry))

    def ran(task: Object) -> list[str]:
        done = subprocess.run(
            ["sh", "-c", *arguments(task)],
            env={"PATH": f"{tmp_path}:/usr/bin:/bin", "HOME": "/h", "DI_HEAD_SERVICE": "a:1"},
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        return done.stdout.splitlines()

    of_head, of_worker = map(ran, spec["tasks"])
    given = ["--port", "6379", "--dashboard-host", "0.0.0.0", "--resources", '{"a b": 1}']
    assert of_head == [*(f"<{each}>" for each in ("start", "--head", *given)), "one two", "/h"]
    assert of_worker == ["<start>", "<--address=a:1>", "<--block>"]


@pytest.mark.proves("from-other-operators.md#raycluster/*")
def test_groups_have_bounds_if_the_cluster_scales() -> None:
    of = group("w", replicas=2, minReplicas=1, maxReplicas=4)
    scaled = spec_of(raycluster(of, enableInTreeAutoscaling=True))["tasks"][1]
    assert (scaled["minReplicas"], scaled["maxReplicas"]) == (1, 4)
    fixed = raycluster(of, group("none", replicas=0))
    assert [task["name"] for task in spec_of(fixed)["tasks"]] == ["head", "w"]
    assert comments(fixed) == [
        "spec.workerGroupSpecs[0].minReplicas",
        "spec.workerGroupSpecs[0].maxReplicas",
        "spec.workerGroupSpecs[1]",
    ]
    (first, *others) = spec_of(fixed)["failurePolicy"]["rules"]
    assert first["onConditions"] == ["DisruptionTarget"]
    assert others == [
        {"tasks": ["head"], "action": "RestartJob"},
        {"tasks": ["w"], "action": "Ignore"},
    ]


def test_named_ports_of_the_head_are_in_its_service() -> None:
    ports = [{"name": "gcs-server", "containerPort": 7000}, {"containerPort": 1}]
    ports.append({"name": "dashboard", "containerPort": 8265})
    head = group(parameters={"port": "7000"}, container={"ports": ports})
    task = spec_of(raycluster(head=head))["tasks"][0]
    assert [(each["name"], each["port"]) for each in task["service"]["ports"]] == [
        ("gcs", 7000),
        ("dashboard", 8265),
    ]
    assert arguments(task)[2:] == ["--port", "7000"]


def test_flags_of_ray_have_no_value() -> None:
    parameters = {"no-monitor": "true", "log-color": "false", "block": "true", "x": ""}
    manifest = raycluster(head=group(parameters=parameters))
    (task,) = spec_of(manifest)["tasks"]
    assert arguments(task)[4:] == ["--no-monitor", "--x"]
    place = "spec.headGroupSpec.rayStartParams"
    assert comments(manifest) == [
        f"{place}.{each}" for each in ("no-monitor", "log-color", "block")
    ]


def test_an_own_command_stays_if_it_overwrites_that_of_kuberay() -> None:
    head = group(parameters={"num-cpus": "0"}, container={"command": ["mine"]})
    head["template"]["metadata"] = {"annotations": _OVERWRITES}
    manifest = raycluster(head=head)
    container = spec_of(manifest)["tasks"][0]["template"]["spec"]["containers"][0]
    assert (container["command"], container.get("args")) == (["mine"], None)
    assert comments(manifest) == ["spec.headGroupSpec.rayStartParams"]


def test_a_mount_for_shared_memory_stays() -> None:
    mount = {"name": "own", "mountPath": "/dev/shm"}
    volumes = [{"name": "own", "emptyDir": {"medium": "Memory"}}]
    head = group(container={"volumeMounts": [mount]})
    head["template"]["spec"]["volumes"] = volumes
    pod = spec_of(raycluster(head=head))["tasks"][0]["template"]["spec"]
    assert (pod["containers"][0]["volumeMounts"], pod["volumes"]) == ([mount], volumes)


@pytest.mark.parametrize(
    ("manifest", "place"),
    [
        (rayjob(clusterSelector={"a": "b"}), "spec.clusterSelector"),
        (rayjob(submissionMode="InteractiveMode"), "spec.entrypoint"),
        (rayjob(entrypoint=None), "spec.entrypoint"),
        (
            raycluster(head=group(container={"args": ["x"]})),
            "spec.headGroupSpec.template.spec.containers[0].args",
        ),
        (
            raycluster(head=group(parameters={"port": "x"})),
            "spec.headGroupSpec.rayStartParams.port",
        ),
        (
            {**raycluster(), "spec": {"workerGroupSpecs": []}},
            "spec.headGroupSpec",
        ),
    ],
)
def test_what_a_dijob_cannot_do_is_refused(manifest: Object, place: str) -> None:
    with pytest.raises(RefusedManifest) as refused:
        convert_one(manifest)
    assert refused.value.place == place
    assert refused.value.remedy


def test_an_entrypoint_beside_an_own_command_is_refused() -> None:
    head = group(container={"command": ["mine"]})
    head["template"]["metadata"] = {"annotations": _OVERWRITES}
    with pytest.raises(RefusedManifest, match="in place of the entrypoint"):
        convert_one(rayjob(cluster(head=head)))


def _without_command(pods: Object) -> Object:
    for name in ("command", "args"):
        pods["spec"]["containers"][0].pop(name, None)
    return pods


def _clusters() -> st.SearchStrategy[Object]:
    pods = template("ray", "metrics").map(_without_command)
    parameters = st.dictionaries(
        st.sampled_from(["num-cpus", "dashboard-host", "block", "no-monitor", "address"]), WORDS
    )
    some_of: Object = {"rayStartParams": parameters, "resources": st.just({"CPU": "177"})}
    head = some(
        {"template": pods},
        {**some_of, "serviceType": WORDS, "enableIngress": st.just(True)},
    )
    counts = st.just({"minReplicas": 3, "maxReplicas": 9})
    workers = st.tuples(
        some(
            {"groupName": st.just("cpu"), "template": pods, "replicas": st.just(6)},
            {
                **{"idleTimeoutSeconds": st.just(178), "numOfHosts": st.just(2), **some_of},
                "suspend": st.just(False),
                "scaleStrategy": st.just({"workersToDelete": ["x"]}),
            },
        ),
        st.one_of(st.just({}), counts),
    ).map(lambda both: {**both[0], **both[1]})
    return some(
        {"headGroupSpec": head, "workerGroupSpecs": workers.map(lambda each: [each])},
        {
            **{"rayVersion": WORDS, "headServiceAnnotations": st.just({"a": "v1"})},
            **{
                "autoscalerOptions": st.just({"image": "v2"}),
                "authOptions": st.just({"mode": "v"}),
            },
            **{"enableInTreeAutoscaling": st.just(True), "suspend": st.just(True)},
            **{"managedBy": st.sampled_from(["ray.io/kuberay-operator", "example.org/x"])},
            "gcsFaultToleranceOptions": st.just({"redisAddress": "v3"}),
            "upgradeStrategy": st.just({"type": "None"}),
        },
    )


@given(manifests("RayCluster", _clusters(), _VERSION))
def test_no_field_of_a_raycluster_is_lost(manifest: Object) -> None:
    found = outcome(manifest)
    assert not isinstance(found, str), found
    assert lost(manifest, found) == []
    assert validate_job(found.job) == []


def _jobs() -> st.SearchStrategy[Object]:
    return some(
        {"entrypoint": WORDS, "rayClusterSpec": _clusters()},
        {
            **{"jobId": WORDS, "runtimeEnvYAML": WORDS, "metadata": st.just({"a": "v5"})},
            **{"submissionMode": st.just("HTTPMode"), "entrypointNumCpus": st.just(181)},
            **{"shutdownAfterJobFinishes": st.just(True), "backoffLimit": st.just(182)},
            **{"ttlSecondsAfterFinished": st.just(183), "activeDeadlineSeconds": st.just(184)},
            **{"suspend": st.just(True), "preRunningDeadlineSeconds": st.just(185)},
            **{"managedBy": st.sampled_from(["ray.io/kuberay-operator", "example.org/x"])},
            "submitterPodTemplate": st.just({"spec": {"a": "v6"}}),
            "deletionStrategy": st.just({"onSuccess": {"policy": "DeleteSelf"}}),
        },
    )


@given(manifests("RayJob", _jobs(), _VERSION))
def test_no_field_of_a_rayjob_is_lost(manifest: Object) -> None:
    found = outcome(manifest)
    assert not isinstance(found, str), found
    assert lost(manifest, found) == []
    assert validate_job(found.job) == []
