"""Programs come from the assets folder, the cache, PATH or a build, in that order."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from di_cluster.builds.binaries import Binaries, component_of
from di_cluster.builds.gobuild import Builder, required_go
from di_cluster.errors import ClusterError
from di_cluster.reporter import Reporter
from di_cluster.settings import Settings

QUIET = Reporter(None)


def program(path: Path, prints: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{prints}'\n")
    path.chmod(0o755)
    return path


class ScriptBuilder(Builder):
    """Builds shell scripts in place of programs, and counts."""

    built = 0

    def build(self, component: str, *, stamps: Mapping[str, str]) -> Path:  # type: ignore[explicit-override]  # typing.override is of Python 3.12
        self.built += 1
        folder = self._cache / "bin" / f".{component}-{self.built}"
        for name in {"etcd": ["server"], "kwok": ["kwok"]}[component]:
            program(folder / name, f"built {self.built} with {len(stamps)} stamps")
        return folder


class Machine:
    """A machine with an empty cache and nothing on its PATH."""

    def __init__(self, root: Path) -> None:
        self.cache, self.assets, self.path = root / "cache", root / "assets", root / "path"
        self.path.mkdir()
        self.builder = ScriptBuilder(
            modules=root, cache=self.cache, search_path=str(self.path), reporter=QUIET
        )

    def binaries(self) -> Binaries:
        """As a new run of the command sees them."""
        environment = {
            "DI_ORCHESTRATOR_CACHE": str(self.cache),
            "KUBEBUILDER_ASSETS": str(self.assets),
            "PATH": str(self.path),
        }
        settings = Settings.from_environment(environment)
        return Binaries(settings=settings, reporter=QUIET, builder=self.builder)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_a_fitting_asset_is_taken_first(machine: Machine) -> None:
    asset = program(machine.assets / "etcd", "etcd Version: 3.7.0")
    program(machine.path / "etcd", "etcd Version: 3.7.3")
    assert machine.binaries().path("etcd") == asset


def test_a_fitting_program_of_the_path_is_taken(machine: Machine) -> None:
    program(machine.assets / "etcd", "etcd Version: 3.5.9")
    found = program(machine.path / "etcd", "etcd Version: 3.7.1")
    assert machine.binaries().path("etcd") == found
    assert machine.builder.built == 0


def test_programs_that_do_not_fit_or_do_not_run_are_built(machine: Machine) -> None:
    program(machine.assets / "etcd", "etcd Version: 3.5.9")
    program(machine.path / "etcd", "etcd Version: 3.7.1").write_text("not a program")
    built = machine.binaries().path("etcd")
    assert built == machine.cache / "bin" / "etcd-3.7.3" / "etcd"
    assert os.access(built, os.X_OK)


@pytest.mark.proves("cluster.md#commands/binary-program")
def test_a_program_is_built_once(machine: Machine) -> None:
    first = machine.binaries().path("kwok")
    assert machine.binaries().path("kwok") == first
    assert machine.builder.built == 1


@pytest.mark.parametrize("damage", ["changed", "truncated", "removed", "checksums removed"])
def test_a_damaged_program_is_built_again(machine: Machine, damage: str) -> None:
    path = machine.binaries().path("kwok")
    content = path.read_text()
    match damage:
        case "changed":
            path.write_text(content.replace("built", "build"))
        case "truncated":
            path.write_text(content[:-1])
        case "removed":
            path.unlink()
        case _:
            path.with_name("checksums.json").unlink()
    assert "built 2" in machine.binaries().path("kwok").read_text()


def test_a_program_that_was_only_touched_is_kept(machine: Machine) -> None:
    path = machine.binaries().path("kwok")
    os.utime(path, (time.time() + 100, time.time() + 100))
    machine.binaries().path("kwok")
    assert machine.builder.built == 1


def test_an_interrupted_build_leaves_no_program(machine: Machine) -> None:
    class Interrupted(ScriptBuilder):
        def build(self, component: str, *, stamps: Mapping[str, str]) -> Path:  # type: ignore[explicit-override]  # typing.override is of Python 3.12
            folder = super().build(component, stamps=stamps)
            for entry in folder.iterdir():
                entry.unlink()
            return folder

    builder = Interrupted(
        modules=machine.cache, cache=machine.cache, search_path="", reporter=QUIET
    )
    machine.builder = builder
    with pytest.raises(OSError, match="No such file"):
        machine.binaries().path("kwok")
    assert [path.name for path in (machine.cache / "bin").iterdir()] == [".lock"]


def test_a_checkout_is_needed_to_build(machine: Machine, tmp_path: Path) -> None:
    builder = Builder(modules=tmp_path, cache=machine.cache, search_path="", reporter=QUIET)
    with pytest.raises(ClusterError, match=r"built from a checkout"):
        builder.build("etcd", stamps={})


def test_a_build_that_fails_shows_the_compilers_words(machine: Machine, tmp_path: Path) -> None:
    module = tmp_path / "broken"
    module.mkdir()
    (module / "go.mod").write_text("module broken\n\ngo 1.26.0\n\ntool broken/cmd\n")
    settings = Settings.from_environment(os.environ)
    # The tool chain that `tools.prepare` has fetched, if the machine has none of its own.
    go = Builder(
        modules=tmp_path, cache=settings.cache, search_path=settings.search_path, reporter=QUIET
    ).go(required_go(module))
    builder = Builder(
        modules=tmp_path, cache=machine.cache, search_path=str(go.parent), reporter=QUIET
    )
    with pytest.raises(ClusterError, match=r"(?s)broken cannot be built:.*broken/cmd"):
        builder.build("broken", stamps={})
    assert list((machine.cache / "bin").glob(".broken*")) == []


def test_stamps_reach_the_builder(machine: Machine) -> None:
    assert component_of("etcd").stamps == {}
    assert "with 0 stamps" in machine.binaries().path("etcd").read_text()
