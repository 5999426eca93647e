"""What a run here cannot do, and what it leaves out, each with its path."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from di_api.validation import load_leniently
from di_local.refusals import Machine, images, notices, refusals

MACHINE = Machine(
    entrypoint=lambda image: ["known"] if image == "known" else [],
    is_command=lambda word: word in ("known", "go"),
    is_directory=lambda path: path in ("/there", "/there/.."),
    given={"mine"},
    there={("configMap", "here")},
    in_containers=False,
)


def _spec(pod: Any = None, *, container: Any = None, task: Any = None, **job: Any) -> Any:
    di_container = {"name": "di-container", "image": "any", "command": ["go"], **(container or {})}
    template = {"spec": {"containers": [di_container], **(pod or {})}}
    return load_leniently(
        {"tasks": [{"type": "learner", "template": template, **(task or {})}], **job}
    )


def _volume(**source: Any) -> Any:
    return {"volumes": [{"name": "v", **source}]}


POD = "spec.tasks[0].template.spec"
REFUSED: dict[str, Any] = {
    f"{POD}.containers[0].command": {"container": {"command": []}},
    f"{POD}.containers[0]: 'stay'": {"container": {"command": ["stay"]}},
    f"{POD}.containers[0].envFrom": {
        "container": {"envFrom": [{"configMapRef": {"name": "here"}}]}
    },
    f"{POD}.containers[0].env[0].valueFrom.resourceFieldRef": {
        "container": {
            "env": [{"name": "A", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}}]
        }
    },
    f"{POD}.initContainers[0].restartPolicy": {
        "pod": {"initContainers": [{"name": "i", "image": "known", "restartPolicy": "Always"}]}
    },
    f"{POD}.volumes[0].persistentVolumeClaim": {
        "pod": _volume(persistentVolumeClaim={"claimName": "c"})
    },
    f"{POD}.volumes[0].hostPath": {"pod": _volume(hostPath={"path": "/nowhere"})},
    f"{POD}.volumes[0].configMap": {"pod": _volume(configMap={"name": "missing"})},
    f"{POD}.volumes[0].secret": {
        "pod": _volume(projected={"sources": [{"secret": {"name": "missing"}}]})
    },
    **{
        f"{POD}.volumes[0].configMap.items[0].path: {path!r}": {
            "pod": _volume(configMap={"name": "here", "items": [{"key": "k", "path": path}]})
        }
        for path in ("/etc/passwd", "../outside", "a/../../outside", "..", "..data/k", "")
    },
    f"{POD}.volumes[0].projected.sources[0].downwardAPI.items[0].path": {
        "pod": _volume(projected={"sources": [{"downwardAPI": {"items": [{"path": "a/../b"}]}}]})
    },
    f"{POD}.volumes[0].projected.sources[0].serviceAccountToken.path": {
        "pod": _volume(projected={"sources": [{"serviceAccountToken": {"path": "../token"}}]})
    },
    f"{POD}.volumes[0].hostPath.path": {"pod": _volume(hostPath={"path": "/there/.."})},
    f"{POD}.volumes[0].name": {"pod": {"volumes": [{"name": "../v", "emptyDir": {}}]}},
    f"{POD}.containers[0].name": {"container": {"name": "../c"}},
    f"{POD}.containers[0].volumeMounts[0].subPath": {
        "container": {"volumeMounts": [{"name": "v", "mountPath": "/v", "subPath": "../other"}]}
    },
    "spec.volumes[0].nfs": {"volumes": [{"name": "v", "nfs": {"server": "s", "path": "/"}}]},
    "spec.checkpoint.persistentVolumeClaim": {
        "checkpoint": {"path": "/c", "persistentVolumeClaim": "c"}
    },
    "spec.artifacts[0].persistentVolumeClaim": {
        "artifacts": [{"name": "a", "path": "/a", "persistentVolumeClaim": "c"}]
    },
    "spec.code.persistentVolumeClaim": {
        "code": {"configMap": "a", "sha256": "0" * 64, "persistentVolumeClaim": "c"}
    },
    "spec.tasks[0].service.ports[0].protocol": {
        "task": {"service": {"ports": [{"name": "dns", "port": 53, "protocol": "UDP"}]}}
    },
    "spec.tasks: one machine has addresses for 245 pods": {"task": {"replicas": 246}},
}


def test_the_pods_of_each_role_are_checked() -> None:
    def role(command: str) -> Any:
        return {"template": {"spec": {"containers": [{"name": "c", "command": [command]}]}}}

    coordinated = {"coordinator": role("stay"), "collector": role("go"), "learner": role("leave")}
    found = refusals(load_leniently({"coordinated": coordinated}), MACHINE)
    assert [each.partition(":")[0] for each in found] == [
        f"spec.coordinated.{role}.template.spec.containers[0]"
        for role in ("coordinator", "learner")
    ]


@pytest.mark.proves(
    "local.md#what-is-as-in-a-cluster-and-what-is-not/claims-and-other-volumes",
    "local.md#what-is-as-in-a-cluster-and-what-is-not/companions-sidecars",
)
@pytest.mark.parametrize("path", REFUSED)
def test_an_unsupported_field_is_refused_with_its_path(path: str) -> None:
    found = refusals(_spec(**REFUSED[path]), MACHINE)
    assert len(found) == 1
    assert found[0].startswith(path)


@pytest.mark.parametrize(
    "case",
    [
        {},
        {"container": {"image": "known", "command": []}},
        {"container": {"command": ["$(DI_TASK_NAME)"]}},
        {"pod": _volume(emptyDir={})},
        {"pod": _volume(hostPath={"path": "/there"})},
        {"pod": _volume(configMap={"name": "here"})},
        {"pod": _volume(secret={"secretName": "missing", "optional": True})},
        {"pod": {"volumes": [{"name": "mine", "nfs": {"server": "s", "path": "/"}}]}},
        {"task": {"replicas": 244, "service": {"ports": [{"name": "http", "port": 80}]}}},
    ],
)
def test_a_supported_job_is_accepted(case: Any) -> None:
    assert refusals(_spec(**case), MACHINE) == []


@pytest.mark.proves(
    "local.md#what-is-as-in-a-cluster-and-what-is-not/resources",
    "local.md#what-is-as-in-a-cluster-and-what-is-not/preemptible",
)
@pytest.mark.parametrize(
    ("case", "notice"),
    [
        ({"container": {"resources": {"limits": {"nvidia.com/gpu": 1}}}}, "nvidia.com/gpu"),
        ({"container": {"livenessProbe": {"exec": {"command": ["go"]}}}}, "livenessProbe"),
        ({"preemptible": True}, "preemptible"),
    ],
)
def test_an_ignored_field_has_a_notice(case: Any, notice: str) -> None:
    (said,) = notices(_spec(**case))
    assert said.startswith(notice)


def test_a_plain_job_has_no_notices() -> None:
    assert notices(_spec()) == []


def test_a_container_run_by_an_engine_needs_an_image_only() -> None:
    machine = replace(MACHINE, entrypoint=lambda _: None)
    assert refusals(_spec(container={"command": []}), machine) == []
    (said,) = refusals(_spec(container={"command": [], "image": ""}), machine)
    assert said.startswith(f"{POD}.containers[0].image: missing")


def test_a_group_of_mpi_is_refused_in_containers() -> None:
    spec = _spec(task={"processGroup": {"framework": "mpi"}})
    assert refusals(spec, MACHINE) == []
    (why,) = refusals(spec, replace(MACHINE, in_containers=True))
    assert why.startswith("spec.tasks[0].processGroup.framework: a group of mpi runs as processes")


def test_each_image_of_a_job_is_listed_once() -> None:
    init = {"initContainers": [{"name": "i", "image": "other"}, {"name": "j", "image": "any"}]}
    assert images(_spec(init)) == ["other", "any"]
