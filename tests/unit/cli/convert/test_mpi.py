"""MPIJobs become DIJobs with one process group, whose first pod runs the launcher's command."""

from __future__ import annotations

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
    pods_of,
    roles,
    run_policy,
    some,
    template,
)

_V2, _V1 = "kubeflow.org/v2beta1", "kubeflow.org/v1"
_SSHD = {"name": "worker", "image": "train", "command": ["sshd"], "args": ["-De"]}
_GPUS = {"limits": {"nvidia.com/gpu": 2}}
_RUN = {"name": "launcher", "image": "train", "command": ["mpirun", "train"]}


def job(
    *, run: Object | None = None, worker: Object | None = None, version: str = _V2, **spec: Any
) -> Object:
    """An MPIJob with two workers; `run` and `worker` are parts of their containers."""
    launcher, other = {**_RUN, **(run or {})}, {**_SSHD, "resources": _GPUS, **(worker or {})}
    specs = {
        "Launcher": {"template": {"spec": {"containers": [launcher]}}},
        "Worker": {"replicas": 2, "template": {"spec": {"containers": [other]}}},
    }
    top = {"apiVersion": version, "kind": "MPIJob", "metadata": {"name": "x"}}
    return {**top, "spec": {"mpiReplicaSpecs": specs, **spec}}


def task_of(manifest: Object) -> Object:
    (task,) = convert_one(manifest).job["spec"]["tasks"]
    found: Object = task
    return found


def comments(manifest: Object) -> dict[str, str]:
    place = "spec.mpiReplicaSpecs."
    return {e.path.removeprefix(place): e.why for e in convert_one(manifest).comments}


@pytest.mark.proves("from-other-operators.md#mpijob/*")
def test_the_first_worker_runs_the_command_of_the_launcher() -> None:
    mine, both = {"name": "A", "value": "1"}, {"name": "B", "value": "2"}
    run = {"env": [mine, both], "resources": {"limits": {"cpu": 1}}}
    theirs = {"name": "B", "value": "3"}
    manifest = job(run=run, worker={"env": [theirs, {"name": "C", "value": "4"}]}, slotsPerWorker=2)
    assert task_of(manifest) == {
        "type": "learner",
        "replicas": 2,
        "processGroup": {"framework": "mpi", "processesPerReplica": 2},
        "template": {
            "spec": {
                "containers": [
                    {
                        **{"name": "worker", "image": "train", "resources": _GPUS},
                        "command": ["mpirun", "train"],
                        "env": [mine, both, {"name": "C", "value": "4"}],
                    }
                ]
            }
        },
    }
    main = "template.spec.containers[0]"
    assert [*comments(manifest)] == [
        f"Worker.{main}.command",
        f"Worker.{main}.args",
        "Launcher",
        f"Worker.{main}.env[0]",
        f"Launcher.{main}.name",
        f"Launcher.{main}.resources.limits.cpu",
    ]


@pytest.mark.proves("from-other-operators.md#mpijob/*")
def test_a_launcher_that_is_a_worker_is_the_first_pod() -> None:
    task = task_of(job(runLauncherAsWorker=True, run={"resources": _GPUS}))
    assert task["replicas"] == 3
    assert task["template"]["spec"]["containers"] == [
        {"name": "worker", "image": "train", "resources": _GPUS, "command": ["mpirun", "train"]}
    ]
    other = task_of(job(runLauncherAsWorker=True, run={"resources": {"limits": {"cpu": 1}}}))
    assert other["podsPerReplica"] == 3
    limits = {"nvidia.com/gpu": None, "cpu": 1}
    patch = {"name": "worker", "resources": {"limits": limits}}
    assert other["leaderTemplatePatch"] == {"spec": {"containers": [patch]}}


@pytest.mark.parametrize(
    ("version", "policy", "action"),
    [
        (_V2, None, "RestartTask"),
        (_V2, "Never", "RestartTask"),
        (_V1, None, "FailJob"),
        (_V1, "OnFailure", "RestartTask"),
    ],
)
def test_a_launcher_restarts_as_the_operator_of_its_version_restarts_it(
    version: str, policy: str | None, action: str
) -> None:
    manifest = job(version=version)
    if policy:
        manifest["spec"]["mpiReplicaSpecs"]["Launcher"]["restartPolicy"] = policy
    (_, rule) = convert_one(manifest).job["spec"]["failurePolicy"]["rules"]
    assert rule == {"tasks": ["learner"], "action": action}


@pytest.mark.proves("from-other-operators.md#mpijob/*")
def test_the_main_container_of_v1_comes_first() -> None:
    manifest = job(version=_V1, mainContainer="launcher", cleanPodPolicy="All")
    containers = manifest["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"]
    containers.insert(0, {"name": "proxy", "image": "proxy"})
    found = convert_one(manifest)
    assert found.job["spec"]["cleanPodPolicy"] == "All"
    (main,) = found.job["spec"]["tasks"][0]["template"]["spec"]["containers"]
    assert main["command"] == ["mpirun", "train"]
    place = "Launcher.template.spec.containers"
    said = comments(manifest)
    assert {f"{place}[0]", f"{place}[1].name"} <= said.keys()
    assert "OpenSSH" in said["spec.mpiReplicaSpecs"]


_MAIN = "spec.mpiReplicaSpecs.Launcher.template.spec.containers[0]"


@pytest.mark.proves("from-other-operators.md#mpijob/*")
@pytest.mark.parametrize(
    ("manifest", "place"),
    [
        (job(run={"command": None, "args": ["train"]}), f"{_MAIN}.command"),
        (job(run={"args": ["--hostfile", "/etc/mpi/hostfile"]}), f"{_MAIN}.args[1]"),
        (job(run={"env": [{"name": "H", "value": "/etc/mpi/hostfile"}]}), f"{_MAIN}.env[0].value"),
        (job(mpiReplicaSpecs={"Worker": {"template": {}}}), None),
        (job(slotsPerWorker=0), "spec.slotsPerWorker"),
    ],
)
def test_an_mpijob_that_would_not_run_is_refused(manifest: Object, place: str | None) -> None:
    with pytest.raises(RefusedManifest) as refused:
        convert_one(manifest)
    assert refused.value.place == place or place is None
    assert refused.value.remedy


def test_an_mpijob_needs_a_launcher() -> None:
    manifest = job()
    del manifest["spec"]["mpiReplicaSpecs"]["Launcher"]
    with pytest.raises(RefusedManifest, match="has no Launcher"):
        convert_one(manifest)


def test_a_launcher_alone_is_a_group_of_one_pod() -> None:
    manifest = job()
    del manifest["spec"]["mpiReplicaSpecs"]["Worker"]
    assert task_of(manifest)["replicas"] == 1


def _manifests(version: str) -> st.SearchStrategy[Object]:
    pods = template("mpi", "none").map(_with_command)
    fields: dict[str, Object] = {
        _V2: {
            **{"sshAuthMountPath": WORDS, "launcherCreationPolicy": st.just("AtStartup")},
            **{"mpiImplementation": st.just("Intel"), "runLauncherAsWorker": st.booleans()},
        },
        _V1: {
            "cleanPodPolicy": st.sampled_from(["", "All", "None"]),
            "mainContainer": st.just("mpi"),
        },
    }
    spec = some(
        {"mpiReplicaSpecs": roles(pods, "Launcher", "Worker")},
        {"runPolicy": run_policy(), "slotsPerWorker": st.just(45), **fields[version]},
    )
    return manifests("MPIJob", spec, version)


def _with_command(pod: Object) -> Object:
    """Each container has a command, whichever is the main one."""
    containers = [{"command": ["mpirun"], **each} for each in pod["spec"]["containers"]]
    return {**pod, "spec": {**pod["spec"], "containers": containers}}


@given(st.sampled_from([_V2, _V1]).flatmap(_manifests))
def test_no_field_of_an_mpijob_is_lost(manifest: Object) -> None:
    found = outcome(manifest)
    if isinstance(found, str):
        assert "leaderTemplatePatch cannot express" in found or "needs the command" in found
        return
    assert lost(manifest, found) == []
    specs = manifest["spec"]["mpiReplicaSpecs"]
    workers = specs.get("Worker", {}).get("replicas", 1) if "Worker" in specs else 0
    more = 1 if manifest["spec"].get("runLauncherAsWorker") or not workers else 0
    assert pods_of(found) == workers + more
    assert validate_job(found.job) == []
