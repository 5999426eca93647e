"""`di install`: the commands it runs, on which cluster, and what it refuses."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from di_cli.exit_codes import ExitCode
from di_cli.install.plan import DOCKERFILES, LocalCluster, components, local_cluster
from di_cli.install.source import FILES, FOLDERS, find_source, tag_of
from di_cluster.release import SERVICES
from tests.unit.cli.conftest import Di

ROOT: Final = Path(__file__).resolve().parents[3]
_REVIEWS: Final = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_PROGRAM: Final = """#!/bin/sh
echo "$(basename "$0") $@" >> '{folder}/run'
[ "$1" != get ] || /bin/cat '{folder}/values' || exit 1
[ "$1" != list ] || echo mine
[ ! -e '{folder}/fails' ] || /bin/grep -qv "^$1$" '{folder}/fails' || exit 3
"""


class Machine:
    """Programs that only write the words with which they were run."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        (folder / "bin").mkdir()
        (folder / "bin/basename").symlink_to("/usr/bin/basename")

    def has(self, *programs: str) -> None:
        for name in programs:
            path = self._folder / "bin" / name
            path.write_text(_PROGRAM.format(folder=self._folder))
            path.chmod(0o755)

    def fails(self, command: str) -> None:
        """Let the programs fail at this command."""
        (self._folder / "fails").write_text(f"{command}\n")

    def release(self, values: dict[str, Any]) -> None:
        """Let helm have a release with these values."""
        (self._folder / "values").write_text(json.dumps(values))

    @property
    def ran(self) -> list[str]:
        """The commands that change something."""
        path = self._folder / "run"
        lines = path.read_text().splitlines() if path.exists() else []
        return [
            each for each in lines if not re.match(r"helm (get|template)|\S+ (info|list)", each)
        ]


@pytest.fixture
def machine(di: Di, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    del di
    found = Machine(tmp_path)
    found.has("helm", "podman")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))
    monkeypatch.chdir(ROOT)
    return found


def in_context(name: str) -> None:
    """Rename the context of the kubeconfig."""

    path = Path(os.environ["KUBECONFIG"])
    config = yaml.safe_load(path.read_text())
    config["contexts"][0]["name"] = config["current-context"] = name
    path.write_text(yaml.safe_dump(config))


@pytest.mark.proves("operations.md#in-one-command/images", "operations.md#in-one-command/tag")
def test_images_are_built_pushed_and_the_chart_installed(di: Di, machine: Machine) -> None:
    said = di("install", "--registry", "registry.example.org/rl/", "--set", "webhook.replicas=1")
    assert (said.code, said.out) == (0, "di-orchestrator is installed\n")
    tag = tag_of(ROOT)
    expected = []
    for name in ("webhook", "operator", "server"):
        image = f"registry.example.org/rl/opendilab/di-{name}:{tag}"
        file = f"services/{name}/Dockerfile"
        expected += [f"podman build --file {file} --tag {image} .", f"podman push {image}"]
    *images, helm = machine.ran
    assert images == expected
    assert helm.startswith("helm upgrade --install di-orchestrator charts/di-orchestrator ")
    assert "--namespace di-system --create-namespace --reset-then-reuse-values --wait" in helm
    assert f"imageRegistry=registry.example.org/rl,webhook.image.tag={tag}," in helm
    assert helm.endswith("--set webhook.replicas=1")
    for line in machine.ran:
        assert f"+ {line}" in said.err


@pytest.mark.proves("operations.md#in-one-command/registry")
def test_the_registry_is_kept_for_the_cluster(di: Di, machine: Machine) -> None:
    assert di("install", "--registry", "registry.example.org/rl").code == 0
    first = machine.ran
    assert di("install").code == 0
    assert machine.ran == first * 2


def test_without_a_registry_nothing_is_run(di: Di, machine: Machine) -> None:
    said = di("install")
    assert said.code == ExitCode.USAGE
    assert said.err.splitlines() == [
        "error: di install needs a registry",
        "  try: di install --registry registry.example.org/team, of one that the nodes can pull "
        "from",
    ]
    assert not machine.ran
    assert di("install", "--registry", "https://x").code == ExitCode.USAGE
    assert di("install", "--registry", "x,y=1").code == ExitCode.USAGE
    assert not machine.ran


@pytest.mark.proves("operations.md#in-one-command/cluster-on-this-machine")
@pytest.mark.parametrize(
    ("context", "program", "loads"),
    [
        ("kind-a", "kind", "kind load docker-image IMAGE --name a"),
        ("k3d-a", "k3d", "k3d image import IMAGE --cluster a"),
        ("minikube", "minikube", "minikube image load IMAGE --profile minikube"),
        ("mine", "di-cluster", "di-cluster load-image --name mine IMAGE"),
    ],
)
def test_a_cluster_of_this_machine_needs_no_registry(
    di: Di, machine: Machine, context: str, program: str, loads: str
) -> None:
    in_context(context)
    machine.has(program)
    assert di("install").code == 0
    image = f"localhost/opendilab/di-server:{tag_of(ROOT)}"
    assert loads.replace("IMAGE", image) in machine.ran
    assert "imageRegistry=localhost," in machine.ran[-1]
    assert f"--kube-context {context} " in machine.ran[-1]


def test_images_are_imported_into_k3s_of_this_machine(
    di: Di, machine: Machine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    in_context("default")
    machine.has("k3s", "sh")
    assert di("install").code == ExitCode.USAGE, "the context of any cluster can be named default"
    (tmp_path / "k3s.yaml").touch()
    monkeypatch.setattr("di_cli.install.machine.K3S", tmp_path / "k3s.yaml")
    assert di("install").code == 0
    image = f"localhost/opendilab/di-server:{tag_of(ROOT)}"
    assert f"sh -c podman save {image} | k3s ctr images import -" in machine.ran


def test_a_local_cluster_without_its_program_needs_a_registry(di: Di, machine: Machine) -> None:
    in_context("kind-a")
    said = di("install")
    assert "which is not on the PATH" in said.err
    assert di("install", "--registry", "r.example.org").code == 0
    assert machine.ran


@pytest.mark.proves("operations.md#in-one-command/dry-run", "cli.md#installing")
def test_a_dry_run_prints_the_commands_and_runs_none(di: Di, machine: Machine) -> None:
    said = di("install", "--registry", "r.example.org", "--dry-run", "--base-image", "mine:3")
    assert said.code == 0
    assert not machine.ran
    assert di("install").code == ExitCode.USAGE, "the registry was kept"
    di("install", "--registry", "r.example.org", "--base-image", "mine:3")
    assert said.lines == machine.ran
    assert "--build-arg BASE_IMAGE=mine:3" in said.lines[0]


@pytest.mark.proves("operations.md#in-one-command/components")
def test_an_upgrade_builds_the_components_that_the_release_has(di: Di, machine: Machine) -> None:
    machine.release({"history": {"enabled": True}})
    said = di("install", "--registry", "r.example.org", "--set", "dashboard.enabled=true")
    assert said.out == "di-orchestrator is upgraded\n"
    built = [each.split()[3] for each in machine.ran if " build " in each]
    assert built == list(DOCKERFILES.values())


def test_components_follow_values_files_and_settings(tmp_path: Path) -> None:
    always = ["webhook", "operator", "server"]
    on, off = {"history": {"enabled": True}}, {"history": {"enabled": False}}
    assert components({}, [], []) == always
    assert components(on, [], []) == [*always, "history"]
    assert components(on, [off], []) == always
    assert components(off, [on], []) == [*always, "history"]
    assert components({}, [on], ["a=1,history.enabled=false"]) == always
    assert components({}, ["text"], ["xhistory.enabled=true"]) == always
    assert components({"history": "x"}, [{"history": {}}], []) == always


@pytest.mark.parametrize(
    ("programs", "message"),
    [
        ((), "helm is not on the PATH, and di install runs it"),
        (("helm",), "no program builds the images: docker, podman, buildah"),
    ],
)
def test_a_missing_program_is_named(
    di: Di, machine: Machine, tmp_path: Path, programs: tuple[str, ...], message: str
) -> None:
    for name in {"helm", "podman"} - {*programs}:
        (tmp_path / "bin" / name).unlink()
    said = di("install", "--registry", "r.example.org")
    assert said.err.splitlines()[0] == f"error: {message}"
    assert not machine.ran


@pytest.mark.proves("own-images.md#without-the-internet")
def test_images_in_the_registry_are_not_built(di: Di, machine: Machine, tmp_path: Path) -> None:
    (tmp_path / "bin/podman").unlink()
    assert di("install", "--registry", "r.example.org", "--no-build").code == 0
    (only,) = machine.ran
    assert only.startswith("helm upgrade")


@pytest.mark.proves("operations.md#in-one-command/rights")
def test_without_rights_in_the_cluster_nothing_is_built(di: Di, machine: Machine) -> None:
    di.world.put(_REVIEWS, {"metadata": {}, "status": {"allowed": False, "reason": "no role"}})
    said = di("install", "--registry", "r.example.org")
    assert said.code == ExitCode.NOT_ALLOWED
    assert said.err.splitlines()[:2] == [
        "error: you are not allowed to create customresourcedefinitions of the cluster",
        "  no role",
    ]
    assert not machine.ran
    assert di("install", "--registry", "r.example.org", "--set", "watchNamespace=rl").code == 0


@pytest.mark.proves("operations.md#in-one-command/values")
@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("template", "the values of the chart are wrong"),
        ("build", "the image of webhook was not built"),
        ("push", "the image of webhook was not pushed"),
        ("upgrade", "the chart was not installed"),
    ],
)
def test_the_first_failed_command_ends_the_installation(
    di: Di, machine: Machine, command: str, message: str
) -> None:
    machine.fails(command)
    said = di("install", "--registry", "r.example.org")
    assert said.code == ExitCode.FAILED
    assert f"error: {message}" in said.err
    assert (machine.ran[-1].split()[1] == command) if machine.ran else (command == "template")


def test_the_tag_changes_with_the_images_content_alone(tmp_path: Path) -> None:
    chart = tmp_path / "charts/di-orchestrator"
    chart.mkdir(parents=True)
    (chart / "Chart.yaml").write_text("appVersion: 1.2.3\n")
    (tmp_path / "cli/a/__pycache__").mkdir(parents=True)
    file = tmp_path / "cli/a/b.py"
    file.write_text("1")
    first = tag_of(tmp_path)
    assert re.fullmatch(r"1\.2\.3-[0-9a-f]{12}", first)
    (tmp_path / "README.md").write_text("text")
    (tmp_path / "cli/a/__pycache__/b.pyc").write_text("1")
    assert tag_of(tmp_path) == first
    file.write_text("2")
    assert tag_of(tmp_path) != first
    assert find_source(tmp_path / "cli/a") == tmp_path


def test_the_tag_covers_all_that_the_dockerfiles_copy() -> None:
    assert {name: f"{each}/Dockerfile" for name, each in SERVICES.items()} == {**DOCKERFILES}
    for file in DOCKERFILES.values():
        for line in re.findall(r"^COPY (?!--from)(.*) \S+$", (ROOT / file).read_text(), re.M):
            for source in line.split():
                assert source in FILES or source.split("/")[0] in FOLDERS, (file, source)


def test_only_known_contexts_are_taken_for_clusters_here() -> None:
    assert local_cluster("kind-x", []) == LocalCluster(program="kind", name="x")
    assert local_cluster("gke_kind-x", ["other"]) is None
