"""From a container of a manifest to a process: names, paths, variables, images and volumes."""

from __future__ import annotations

import random
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from di_api.dns_names import job_name_of
from di_local.addresses import MAX_NAMES, Names, Network, NoAddress, take_network
from di_local.images import BadImages, Images, read_images, short_name
from di_local.manifest import BadManifest, read_manifest
from di_local.pods.environment import Missing, expanded, field_value, inherited, variables, words
from di_local.pods.mounts import Mounts
from di_local.pods.status import Container, pod_status, terminated, waiting
from examples.demo.manifests import ROOT

POD: dict[str, Any] = {
    "metadata": {
        "name": "tiny-learner-0",
        "namespace": "default",
        "uid": "u",
        "labels": {"a/b": "c"},
    },
    "spec": {"nodeName": "here"},
    "status": {"podIP": "127.1.2.3"},
}


@pytest.fixture
def network() -> Any:
    found = take_network(random.Random(1))
    yield found
    found.listener.close()


@pytest.mark.proves("local.md#what-is-as-in-a-cluster-and-what-is-not/names-in-di-nodes-and-others")
def test_each_name_has_a_stable_address(network: Network) -> None:
    names = Names(network, namespace="default", job="tiny")
    text = "tiny-a-0.di-tiny.default.svc.cluster.local:1,tiny-a-1.di-tiny.default,localhost"
    first, second, hole = names.replaced(text).split(",")
    assert (first, second, hole) == (f"{network.prefix}.10:1", f"{network.prefix}.11", "localhost")
    assert names.replaced(text) == f"{first},{second},{hole}"


@pytest.mark.parametrize(
    "text",
    [
        "tiny-a-0.di-other.default.svc.cluster.local",
        "tiny-a-0.di-tiny.elsewhere.svc.cluster.local",
        "x.tiny-a-0.di-tiny.default.example.org",
        "di-tiny.default",
        "tiny-a-0.di-tiny.defaults",
    ],
)
def test_other_names_are_not_replaced(network: Network, text: str) -> None:
    assert Names(network, namespace="default", job="tiny").replaced(text) == text


def test_two_runs_have_different_networks(network: Network) -> None:
    # The same choices: the first one is taken.
    other = take_network(random.Random(1))
    other.listener.close()
    assert other.prefix != network.prefix


@pytest.mark.proves("local.md#what-is-as-in-a-cluster-and-what-is-not/pods-and-services")
def test_addresses_are_limited_and_reused(network: Network) -> None:
    for number in range(MAX_NAMES):
        network.address(f"pod-{number}")
    with pytest.raises(NoAddress, match="one-more"):
        network.address("one-more")
    network.forget("pod-7")
    assert network.address("one-more") == f"{network.prefix}.17"
    assert network.address("pod-8") == f"{network.prefix}.18"


@pytest.mark.proves(
    "local.md#what-a-command-is", "local.md#what-is-as-in-a-cluster-and-what-is-not/hostpath"
)
def test_paths_below_mounts_are_replaced(tmp_path: Path) -> None:
    volumes = {"data": tmp_path / "d", "state": tmp_path / "s"}
    mounts = Mounts(
        [
            {"name": "data", "mountPath": "/data"},
            {"name": "state", "mountPath": "/data/state/", "subPath": "of/mine"},
            {"name": "unknown", "mountPath": "/unknown"},
        ],
        volumes,
    )
    text = "--data=/data/x:/data/state/y,/data,/database /old/data /unknown"
    assert mounts.replaced(text) == (
        f"--data={tmp_path}/d/x:{tmp_path}/s/of/mine/y,{tmp_path}/d,/database /old/data /unknown"
    )


def test_variable_references_are_expanded_as_by_a_kubelet() -> None:
    known = {"A": "1", "B": "$(A)"}
    assert expanded("$(A) $$(A) $(B) $(C) $", known) == "1 $(A) $(A) $(C) $"


def test_a_variable_may_refer_to_earlier_ones_and_to_the_pod() -> None:
    container = {
        "env": [
            {"name": "A", "value": "$(B)"},
            {"name": "B", "value": "2"},
            {"name": "C", "value": "$(B)3"},
            {"name": "D", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "E", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['a/b']"}}},
            {"name": "F", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
            {
                "name": "G",
                "valueFrom": {"configMapKeyRef": {"name": "s", "key": "x", "optional": True}},
            },
        ]
    }
    found = variables(
        container,
        POD,
        replaced=lambda text: text,
        read_key=lambda kind, name, key: "secret" if (name, key) == ("s", "k") else None,
    )
    assert found == {
        **{"A": "$(B)", "B": "2", "C": "23"},
        **{"D": "tiny-learner-0", "E": "c", "F": "secret"},
    }


def test_an_unresolved_reference_is_named() -> None:
    container = {"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]}
    with pytest.raises(Missing, match="secret s has no key k"):
        variables(container, POD, replaced=lambda text: text, read_key=lambda *_: None)
    with pytest.raises(Missing, match="field spec"):
        field_value(POD, "spec.unknown")


def test_a_pod_does_not_inherit_another_jobs_variables() -> None:
    assert inherited({"PATH": "/bin", "DI_RANK": "1", "KUBERNETES_PORT": "2"}) == {"PATH": "/bin"}


def test_command_words_are_expanded_and_replaced() -> None:
    assert words(["run", "$(N)"], {"N": "3"}, str.upper) == ["RUN", "3"]


@pytest.mark.parametrize(
    "image", ["my", "my:1", "registry:5000/a/my:1", "a/my@sha256:00", "a/my:1@sha256:00"]
)
def test_an_image_is_known_by_its_short_name(image: str) -> None:
    assert short_name(image) == "my"


@pytest.mark.proves("local.md#what-a-command-is")
def test_the_project_maps_images_to_commands(tmp_path: Path) -> None:
    text = '[tool.di-local.images.my]\ncommand = ["go"]\nenv = {A = "1"}\n'
    (tmp_path / "pyproject.toml").write_text(text)
    images = read_images(tmp_path)
    assert (images.entrypoint("x/my:1"), images.environ("my")) == (["go"], {"A": "1"})
    assert (images.entrypoint("other"), images.environ("other")) == ((), {})
    assert list(read_images(tmp_path, ["mine"]).entrypoint("my")) == ["mine"]
    assert read_images(tmp_path / "nowhere") == Images()


@pytest.mark.parametrize(
    "text", ["images = 1", "images.my = 1", "images.my.cmd = []", "images.my.command = 'go'"]
)
def test_a_bad_image_table_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "pyproject.toml").write_text(f"[tool.di-local]\n{text}\n")
    with pytest.raises(BadImages, match="di-local"):
        read_images(tmp_path)


def test_a_job_of_an_older_version_is_converted() -> None:
    job = read_manifest(ROOT / "examples" / "coordinated-cartpole" / "job.yaml").job
    assert job["apiVersion"].endswith("/v2alpha1")
    assert set(job["spec"]["coordinated"]) == {"coordinator", "collector"}


@pytest.mark.parametrize(
    ("example", "package"), [("cartpole", "cartpole"), ("coordinated-cartpole", "coordinated")]
)
def test_the_example_runs_as_its_image_does(example: str, package: str) -> None:
    folder = ROOT / "examples" / example
    document = tomllib.loads((folder / "pyproject.toml").read_text())
    image = document["tool"]["di-local"]["images"][f"di-{example}"]
    built = (folder / "Dockerfile").read_text()
    words = ", ".join(f'"{word}"' for word in image["command"])
    assert f"ENTRYPOINT [{words}]" in built
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        found = re.search(rf"{name}=(\S+)", built)
        assert found is not None
        assert image["env"][name] == found[1]
    assert (folder / image["env"]["PYTHONPATH"] / f"di_{package}" / "main.py").exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "job.yaml"),
        ("- 1", "no object"),
        ("kind: Pod\nmetadata: {name: a}", "0 documents of kind DIJob"),
        (
            "kind: DIJob\nmetadata: {name: a}\n---\nkind: Pod\nmetadata: {name: a}",
            "apiVersion|Pod is nothing",
        ),
        ("apiVersion: diengine.opendilab.org/v1beta1\nkind: DIJob\nmetadata: {name: a}", "v1beta1"),
        (
            "apiVersion: diengine.opendilab.org/v2alpha1\nkind: DIJob\nmetadata: {}",
            "name is missing",
        ),
        ("apiVersion: v1\nkind: DIJob\nmetadata: {name: a}", "apiVersion is v1"),
        ("kind: DIJob\nmetadata: {name: a, namespace: ../..}", "'../..' is no DNS label"),
    ],
)
def test_a_bad_manifest_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(text)
    with pytest.raises(BadManifest, match=message):
        read_manifest(path)


@pytest.mark.parametrize(
    ("program", "name"), [("train.py", "train"), ("My_Run.2.py", "my-run-2"), ("__.py", "job")]
)
def test_a_job_is_named_for_its_program(program: str, name: str) -> None:
    assert job_name_of(Path(program).stem) == name


def _status(*containers: Container, before: Any = None) -> Any:
    return pod_status(containers, before=before or {}, address="127.0.0.9", now="t1")


def _container(state: Any, *, init: bool = False, **fields: Any) -> Container:
    return Container("c", "image", is_init=init, state=state, **fields)


RUNNING = {"running": {"startedAt": "t0"}}


def _ended(code: int) -> Any:
    return terminated(code, began="t0", ended="t1", message="")


@pytest.mark.parametrize(
    ("containers", "phase"),
    [
        ([_container(waiting("PodInitializing"))], "Pending"),
        ([_container(RUNNING, init=True), _container(waiting("x"))], "Pending"),
        ([_container(_ended(1), init=True), _container(waiting("x"))], "Failed"),
        ([_container(RUNNING), _container(waiting("x"))], "Running"),
        ([_container(_ended(0)), _container(RUNNING)], "Running"),
        ([_container(_ended(0)), _container(_ended(0))], "Succeeded"),
        ([_container(_ended(0)), _container(_ended(1))], "Failed"),
        ([_container(waiting("CrashLoopBackOff"), last=_ended(1))], "Running"),
    ],
)
def test_a_pods_phase_follows_its_containers(containers: list[Container], phase: str) -> None:
    assert _status(*containers)["phase"] == phase


def test_a_pod_is_ready_when_all_its_containers_are() -> None:
    one, other = _container(RUNNING, ready=True), _container(RUNNING)
    before = _status(one, other)
    assert _ready(before) == ("False", "t1")
    other.ready = True
    after = pod_status([one, other], before=before, address="127.0.0.9", now="t2")
    assert _ready(after) == ("True", "t2")
    again = pod_status([one, other], before=after, address="127.0.0.9", now="t3")
    assert again == after


def _ready(status: Any) -> tuple[str, str]:
    found = next(each for each in status["conditions"] if each["type"] == "Ready")
    return found["status"], found["lastTransitionTime"]
