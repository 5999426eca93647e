"""Pods that get their program from `spec.code`."""

from __future__ import annotations

import ast
from typing import Any

import pytest

from di_api.code_names import CODE_FALLBACK, CODE_PACKAGES, MOST_CODE_PARTS
from di_api.spec import Code
from di_operator.builders.code import with_code
from di_unpack import program
from tests.unit.lifecycle.cluster_model import ClusterModel, job, task
from tests.unit.lifecycle.test_coordinated import coordinated

CODE = {"configMap": "x-code-1", "sha256": "1" * 64}
MAIN = {
    "name": "di-container",
    "image": "python:3.13-slim",
    "imagePullPolicy": "Always",
    "resources": {"limits": {"nvidia.com/gpu": 1}},
    "securityContext": {"runAsUser": 5},
}


def pod_of(cluster: ClusterModel, name: str) -> dict[str, Any]:
    cluster.settle()
    spec: dict[str, Any] = cluster.pods[name]["spec"]
    return spec


def pod(*containers: dict[str, Any], code: dict[str, Any] = CODE) -> dict[str, Any]:
    template = {"spec": {"containers": [dict(each) for each in containers]}}
    return pod_of(ClusterModel(job(task("learner", template=template), code=code)), "x-learner-0")


PROGRAM = {**MAIN, "command": ["python3", "train.py"], "args": ["--lr", "1"]}


def test_an_only_container_with_a_command_unpacks_before_its_program() -> None:
    found = pod(PROGRAM, code={**CODE, "path": "/src", "parts": 2})
    assert "initContainers" not in found
    (main,) = found["containers"]
    python, option, text, *command = main["command"]
    assert (python, option, command) == ("python3", "-c", PROGRAM["command"])
    assert ast.dump(ast.parse(text)) == ast.dump(ast.parse(_text()))
    assert (main["args"], main["workingDir"]) == (PROGRAM["args"], "/src")
    assert {each["name"]: each.get("value") for each in main["env"][-5:]} == {
        "PYTHONPATH": "/src:/src/.di-packages",
        program.BUNDLE: "/var/run/di-code/bundle.tar.gz",
        program.SHA256: "1" * 64,
        program.DIRECTORY: "/src",
        program.COUNT: "2",
    }
    assert main["volumeMounts"][-2:] == [
        {"name": "di-code", "mountPath": "/src"},
        {"name": "di-code-bundle", "mountPath": "/var/run/di-code", "readOnly": True},
    ]


def test_a_container_that_unpacks_has_its_own_file_of_the_termination_message() -> None:
    found = pod({**PROGRAM, "terminationMessagePath": "/tmp/end"}, code=CODE)
    (main,) = found["containers"]
    assert main["env"][-1] == {"name": program.REPORT, "value": "/tmp/end"}


def test_a_node_check_comes_before_a_container_that_unpacks() -> None:
    spec = {"containers": [PROGRAM]}
    cluster = ClusterModel(
        job(task("learner", template={"spec": spec}, nodeCheck={"command": ["a"]}), code=CODE)
    )
    found = pod_of(cluster, "x-learner-0")
    assert [each["name"] for each in found["initContainers"]] == ["di-node-check"]
    assert found["containers"][0]["command"][3:] == PROGRAM["command"]


@pytest.mark.parametrize(
    ("containers", "code", "restarts"),
    [
        ([PROGRAM, {"name": "b", "image": "other"}], {}, "Never"),
        ([MAIN], {}, "Never"),
        ([PROGRAM], {"requirements": "a.txt"}, "Never"),
        ([PROGRAM], {"persistent_volume_claim": "shared"}, "Never"),
        ([{**PROGRAM, "lifecycle": {"postStart": {"exec": {"command": ["a"]}}}}], {}, "Never"),
        ([PROGRAM], {}, "OnFailure"),
        *(
            ([{**PROGRAM, "volumeMounts": [{"name": "v", "mountPath": path}]}], {}, "Never")
            for path in ("/var/", "/run", "/var/run/di-code", "/var/run/di-code/a")
        ),
    ],
)
def test_a_pod_that_needs_the_code_or_its_own_mounts_earlier_has_an_init_container(
    containers: list[dict[str, Any]], code: dict[str, Any], restarts: str
) -> None:
    body = {"spec": {"restartPolicy": restarts, "containers": containers}}
    found = with_code(body, Code(config_map="a", sha256="1" * 64, **code))["spec"]
    assert [each["name"] for each in found["initContainers"]] == ["di-code"]
    assert found["containers"][0].get("command") == containers[0].get("command")


@pytest.mark.proves("dijob.md#spec/code-configmap", "dijob.md#spec/code-sha256")
def test_an_init_container_like_the_program_gets_the_bundle_and_its_hash() -> None:
    (init,) = pod({"name": "b", "image": "other"}, MAIN)["initContainers"]
    command = init["command"]
    assert command[:2] == ["python3", "-c"]
    assert ast.dump(ast.parse(command[2])) == ast.dump(ast.parse(_text()))
    same = {key: init[key] for key in MAIN if key != "name"}
    assert (init["name"], same) == ("di-code", {k: v for k, v in MAIN.items() if k != "name"})
    assert init["env"] == [
        {"name": "DI_CODE_BUNDLE", "value": "/var/run/di-code/bundle.tar.gz"},
        {"name": "DI_CODE_SHA256", "value": "1" * 64},
        {"name": "DI_CODE_DIRECTORY", "value": "/code"},
    ]


@pytest.mark.proves("dijob.md#spec/code-parts")
def test_the_parts_of_a_bundle_are_files_of_one_volume() -> None:
    found = pod(MAIN, code={**CODE, "parts": 3})
    (volume,) = (each for each in found["volumes"] if each["name"] == "di-code-bundle")
    sources = [each["configMap"] for each in volume["projected"]["sources"]]
    assert [(each["name"], each["items"][0]["path"]) for each in sources] == [
        ("x-code-1", "bundle.tar.gz"),
        ("x-code-1.2", "bundle.tar.gz.2"),
        ("x-code-1.3", "bundle.tar.gz.3"),
    ]
    assert {each["items"][0]["key"] for each in sources} == {"bundle.tar.gz"}
    assert {"name": program.COUNT, "value": "3"} in found["initContainers"][0]["env"]
    (single,) = (each for each in pod(MAIN)["volumes"] if each["name"] == "di-code-bundle")
    assert single["configMap"]["name"] == "x-code-1"
    assert program.MOST_PARTS == MOST_CODE_PARTS


@pytest.mark.proves("dijob.md#spec/code-persistentvolumeclaim")
def test_only_the_init_container_has_the_claim_and_only_the_folder_of_its_bundle() -> None:
    found = pod(MAIN, code={**CODE, "persistentVolumeClaim": "shared"})
    (volume,) = (each for each in found["volumes"] if each["name"] == "di-code-bundle")
    assert volume["persistentVolumeClaim"] == {"claimName": "shared"}
    (main,), (init,) = found["containers"], found["initContainers"]
    (mount,) = (each for each in init["volumeMounts"] if each["name"] == "di-code-bundle")
    assert (mount["subPath"], mount["readOnly"]) == (f"di-code/{'1' * 64}", True)
    assert "di-code-bundle" not in {each["name"] for each in main["volumeMounts"]}


@pytest.mark.proves("dijob.md#spec/code-path", "dijob.md#spec/code-requirements")
def test_the_program_starts_in_the_directory_of_the_code_with_its_packages() -> None:
    found = pod(MAIN, code={**CODE, "path": "/src", "requirements": "a/b.txt"})
    (main,), (init,) = found["containers"], found["initContainers"]
    path = {"name": "PYTHONPATH", "value": "/src:/src/.di-packages"}
    assert (main["workingDir"], main["env"][-1]) == ("/src", path)
    assert {"name": "di-code", "mountPath": "/src"} in main["volumeMounts"]
    assert {"name": "DI_CODE_REQUIREMENTS", "value": "a/b.txt"} in init["env"]
    names = [each["name"] for each in found["volumes"]]
    assert names[-2:] == ["di-code", "di-code-bundle"]


def test_a_template_keeps_its_directory_and_its_python_path() -> None:
    own = {"name": "PYTHONPATH", "value": "/own"}
    (main,) = pod({**MAIN, "workingDir": "/here", "env": [own]})["containers"]
    paths = [each["value"] for each in main["env"] if each["name"] == "PYTHONPATH"]
    assert (main["workingDir"], paths) == ("/here", ["/own:/code:/code/.di-packages"])


def test_pip_gets_the_index_and_the_proxy_of_the_template_and_nothing_else() -> None:
    known = ("PIP_INDEX_URL", "UV_DEFAULT_INDEX", "https_proxy")
    given = [{"name": name, "value": "a"} for name in (*known, "TOKEN")]
    (init,) = pod({**MAIN, "env": given})["initContainers"]
    names = [each["name"] for each in init["env"] if not each["name"].startswith("DI_CODE_")]
    assert names == [*known]


@pytest.mark.proves("own-code.md#a-cache-of-packages")
def test_pip_gets_the_volume_of_its_cache_and_no_other() -> None:
    cache = {"name": "PIP_CACHE_DIR", "value": "/data/cache/pip"}
    paths = ("/data", "/data/cache/", "/data/cache/pip-2", "/other")
    mounts = [{"name": f"v{index}", "mountPath": path} for index, path in enumerate(paths)]
    volumes = [{"name": each["name"], "emptyDir": {}} for each in mounts]

    def mounted(**container: Any) -> list[str]:
        spec = {"containers": [{**MAIN, "volumeMounts": mounts, **container}], "volumes": volumes}
        cluster = ClusterModel(job(task("learner", template={"spec": spec}), code=CODE))
        (init,) = pod_of(cluster, "x-learner-0")["initContainers"]
        assert {each["name"] for each in container.get("env", ())} <= {
            each["name"] for each in init["env"]
        }
        return [each["name"] for each in init["volumeMounts"]]

    assert mounted(env=[cache]) == ["di-code", "di-code-bundle", "v1"]
    assert mounted(env=[{**cache, "name": "UV_CACHE_DIR"}])[2:] == ["v1"]
    assert mounted() == ["di-code", "di-code-bundle"]


def test_the_code_comes_after_the_node_check_and_before_other_init_containers() -> None:
    spec = {"containers": [MAIN], "initContainers": [{"name": "own", "image": "i"}]}
    cluster = ClusterModel(
        job(task("learner", template={"spec": spec}, nodeCheck={"command": ["a"]}), code=CODE)
    )
    names = [each["name"] for each in pod_of(cluster, "x-learner-0")["initContainers"]]
    assert names == ["di-node-check", "di-code", "own"]


def test_a_coordinator_gets_the_code_too() -> None:
    cluster = coordinated()
    cluster.job["spec"]["code"] = CODE
    (init,) = pod_of(cluster, "x-coordinator")["initContainers"]
    assert init["name"] == "di-code"


def test_the_program_and_the_operator_use_the_same_names() -> None:
    (init,) = pod(MAIN, code={**CODE, "requirements": "a.txt"})["initContainers"]
    variables = {each["name"] for each in init["env"]}
    known = {program.BUNDLE, program.SHA256, program.DIRECTORY, program.REQUIREMENTS}
    assert variables == known
    assert (program.PACKAGES, program.FALLBACK) == (
        CODE_PACKAGES,
        CODE_FALLBACK,
    )


def test_a_pod_without_containers_is_left_alone() -> None:
    body: dict[str, Any] = {"spec": {}}
    assert with_code(body, Code(config_map="a", sha256="b")) is body
    assert with_code(body, None) is body


def _text() -> str:
    with open(program.__file__, encoding="utf-8") as opened:
        return opened.read()
