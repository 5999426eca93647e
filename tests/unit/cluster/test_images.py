"""References of locally built images and images made by hand."""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from di_cluster.builds import rootfs
from di_cluster.builds.archive import ImageConfig
from di_cluster.builds.images import Image, ImageStore, full_reference
from di_cluster.current import CurrentCluster, image_loader
from di_cluster.reporter import Reporter
from di_cluster.settings import Settings


@pytest.mark.parametrize(
    ("tag", "reference"),
    [
        ("di-server:dev", "localhost/di-server:dev"),
        ("di-server", "localhost/di-server:latest"),
        ("team/di-server:dev", "localhost/team/di-server:dev"),
        ("localhost/di-server:dev", "localhost/di-server:dev"),
        ("localhost:5000/di-server", "localhost:5000/di-server:latest"),
        ("registry.example.com/di-server:1.0", "registry.example.com/di-server:1.0"),
    ],
)
def test_an_image_without_a_registry_is_local(tag: str, reference: str) -> None:
    assert full_reference(tag) == reference


def test_an_image_configuration_has_set_fields_only() -> None:
    assert ImageConfig(command=("sh", "-c")).body() == {"Cmd": ["sh", "-c"]}


@pytest.mark.parametrize(
    ("context", "loader"),
    [("kind-dev", "kind"), ("minikube", "minikube"), ("production", ""), ("", "")],
)
def test_the_current_context_chooses_the_image_loader(context: str, loader: str) -> None:
    assert image_loader(context) == loader


def test_another_recipe_makes_another_base_image(monkeypatch: pytest.MonkeyPatch) -> None:
    before = rootfs.recipe()
    monkeypatch.setattr(rootfs, "PACKAGES", (*rootfs.PACKAGES, "perl"))
    assert rootfs.recipe() != before


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """What programs would be called with."""
    calls: list[list[str]] = []

    def run(argv: Sequence[str | Path], **_: object) -> str:
        calls.append([str(each) for each in argv])
        return ""

    for module in ("current", "builds.images"):
        monkeypatch.setattr(f"di_cluster.{module}.run", run)
    return calls


BUILT = Image(reference="localhost/opendilab/di-server:dev", image_id="abc")
THERE = "registry.example.org/team/opendilab/di-server:1.2.3"


@pytest.mark.parametrize(("plain", "verified"), [(True, "false"), (False, "true")])
def test_buildah_pushes_what_was_built(
    plain: bool, verified: str, said: list[list[str]], tmp_path: Path
) -> None:
    ImageStore(tmp_path, reporter=Reporter(io.StringIO())).push(BUILT, THERE, plain=plain)
    (call,) = said
    assert call[-4:] == ["-q", f"--tls-verify={verified}", "abc", f"docker://{THERE}"]


def test_docker_tags_and_pushes_the_image(said: list[list[str]], tmp_path: Path) -> None:
    docker = tmp_path / "docker"
    docker.touch(mode=0o755)
    settings = Settings.from_environment({"PATH": str(tmp_path), "HOME": str(tmp_path)})
    target = CurrentCluster(settings=settings, reporter=Reporter(io.StringIO()))
    target.push_image(BUILT, THERE, plain=False)
    assert said == [[str(docker), "tag", BUILT.reference, THERE], [str(docker), "push", THERE]]


def test_an_archive_stays_while_another_tree_of_that_name_may_load_it(
    said: list[list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(argv: Sequence[str | Path], **_: object) -> str:
        said.append([str(each) for each in argv])
        Path(said[-1][-1].split(":")[1]).touch()
        return ""

    monkeypatch.setattr("di_cluster.builds.images.run", run)
    store = ImageStore(tmp_path, reporter=Reporter(io.StringIO()))
    ours = store.archive(BUILT)
    theirs = store.archive(replace(BUILT, image_id="def"))
    assert ours.exists()
    assert theirs.exists()
    assert [call[-2] for call in said] == ["abc", "def"]
    os.utime(ours, (1, 1))
    store.archive(replace(BUILT, image_id="0123"))
    assert not ours.exists()
    assert theirs.exists()


def test_an_archive_is_written_after_a_killed_run_left_a_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(argv: Sequence[str | Path], **_: object) -> str:
        # buildah refuses a file that exists.
        with Path(str(argv[-1]).split(":")[1]).open("x") as file:
            file.write("whole")
        return ""

    monkeypatch.setattr("di_cluster.builds.images.run", run)
    store = ImageStore(tmp_path, reporter=Reporter(io.StringIO()))
    path = store.archive(BUILT)
    path.rename(path.with_suffix(".part")).write_text("half")
    assert store.archive(BUILT).read_text() == "whole"
