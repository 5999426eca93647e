"""What pip installs of us works, in an environment that has what it asks for and nothing else."""

from __future__ import annotations

import re
import subprocess
import sys
import venv
from collections.abc import Iterable
from email.message import Message
from email.parser import Parser
from importlib.metadata import Distribution, distribution
from pathlib import Path
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tools.release.version import ROOT, present
from tools.release.wheels import PUBLISHED, CannotBuild, build, packages

pytestmark = pytest.mark.extended

OURS = re.compile(r"di[-_]")


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """By the name of the distribution."""
    directory = tmp_path_factory.mktemp("wheels")
    (directory / "di_api-0.0.1-py3-none-any.whl").touch()  # of an earlier release
    return {canonicalize_name(file.name.partition("-")[0]): file for file in build(ROOT, directory)}


def metadata(wheel: Path) -> Message:
    with ZipFile(wheel) as archive:
        (name,) = (each for each in archive.namelist() if each.endswith(".dist-info/METADATA"))
        return Parser().parsestr(archive.read(name).decode())


class Environment:
    """A Python of its own, into which third-party packages are linked as they lie here.

    Only those that somebody asks for: what a wheel imports and does not declare is not there.
    """

    def __init__(self, folder: Path) -> None:
        venv.create(folder, with_pip=False)
        self.bin = folder / "bin"
        self._folder = folder
        (self._packages,) = folder.glob("lib/python3*/site-packages")

    def install(self, wheels: dict[str, Path], requirement: str) -> None:
        """As pip does, with nothing fetched."""
        own, others = _closure(wheels, requirement)
        for each in others:
            self._link(each)
        subprocess.run(
            [
                *(Path(sys.executable).with_name("uv"), "pip", "install", "--quiet", "--offline"),
                *("--no-deps", "--no-index", "--no-cache", "--python", self.bin / "python"),
                *(wheels[name] for name in own),
            ],
            check=True,
            timeout=60,
        )

    def _link(self, found: Distribution) -> None:
        tops = {file.parts[0] for file in found.files or ()} - {"..", "__pycache__"}
        for top in tops:
            target = Path(str(found.locate_file(top)))
            if not (self._packages / top).exists() and target.exists():
                (self._packages / top).symlink_to(target)

    def run(self, *command: str) -> str:
        done = subprocess.run(
            [self.bin / command[0], *command[1:]],
            cwd=self._folder,
            env={
                **{"PATH": f"{self.bin}:/usr/bin:/bin", "HOME": str(self._folder)},
                **{"XDG_STATE_HOME": str(self._folder / "state"), "COLUMNS": "200"},
            },
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


def _closure(wheels: dict[str, Path], wanted: str) -> tuple[list[str], list[Distribution]]:
    """Our packages, and those of others, that a requirement comes to."""
    own: dict[str, None] = {}
    others: dict[str, Distribution] = {}
    left, seen = [Requirement(wanted)], set[tuple[str, str]]()
    while left:
        each = left.pop()
        name = canonicalize_name(each.name)
        for extra in ("", *each.extras):
            if (name, extra) in seen:
                continue
            seen.add((name, extra))
            if OURS.match(name):
                own[name] = None
                asked: Iterable[str] = metadata(wheels[name]).get_all("Requires-Dist") or ()
            else:
                others[name] = distribution(name)
                assert each.specifier.contains(others[name].version, prereleases=True), each
                asked = others[name].requires or ()
            left += [
                requirement
                for requirement in map(Requirement, asked)
                if not requirement.marker or requirement.marker.evaluate({"extra": extra})
            ]
    return list(own), list(others.values())


def test_every_wheel_has_the_licence_and_requires_its_own_release(wheels: dict[str, Path]) -> None:
    folders = packages(ROOT)
    assert set(wheels) == set(folders) >= {PUBLISHED, "di-api", "di-cli", "di-local"}
    for name, wheel in wheels.items():
        said = metadata(wheel)
        assert (said["Name"], said["Version"]) == (name, present(ROOT))
        assert (said["License-Expression"], said["License-File"]) == ("Apache-2.0", "LICENSE")
        with ZipFile(wheel) as archive:
            (licence,) = (each for each in archive.namelist() if each.endswith("licenses/LICENSE"))
            assert archive.read(licence) == (ROOT / "LICENSE").read_bytes()
            tops = {each.partition("/")[0] for each in archive.namelist()}
        sources = {each.parent.name for each in (folders[name] / "src").glob("*/__init__.py")}
        assert tops == {*sources, f"{name.replace('-', '_')}-{present(ROOT)}.dist-info"}
        ours = [each for each in said.get_all("Requires-Dist") or () if OURS.match(each)]
        assert [each for each in ours if f"=={present(ROOT)}" not in each] == []


def test_the_package_of_training_programs_needs_requests_only(
    wheels: dict[str, Path], tmp_path: Path
) -> None:
    environment = Environment(tmp_path)
    environment.install(wheels, PUBLISHED)
    program = "import di_orchestrator as di; print(di.__version__, di.__file__)"
    version, file = environment.run("python", "-c", program).split()
    assert version == present(ROOT)
    assert Path(file).is_relative_to(tmp_path)
    assert not (environment.bin / "di").exists()


def test_the_installed_command_runs_a_job(wheels: dict[str, Path], tmp_path: Path) -> None:
    environment = Environment(tmp_path)
    environment.install(wheels, f"{PUBLISHED}[cli]")
    assert environment.run("di", "--version") == f"di {present(ROOT)}\n"
    assert environment.run("kubectl-di").startswith("Usage: kubectl di")
    environment.install(wheels, f"{PUBLISHED}[local]")
    assert environment.run("di", "run", "--help").startswith("usage: di run")
    # The learner's success ends the job: it waits until the collector has had its say.
    (tmp_path / "train.py").write_text(
        f"""
import pathlib, time
import di_orchestrator as di
print(di.job().task, di.__file__, flush=True)
said = pathlib.Path({str(tmp_path / "said")!r})
if di.job().task == "collector":
    said.touch()
while not said.exists():
    time.sleep(0.02)
"""
    )
    said = environment.run("di", "run", "train.py", "-f", "--collectors", "1")
    assert f"learner {tmp_path}" in said
    assert f"collector {tmp_path}" in said
    assert "Succeeded" in said


def test_a_package_that_cannot_be_built_is_named(tmp_path: Path) -> None:
    (tmp_path / "LICENSE").touch()
    (tmp_path / "sdk").mkdir()
    (tmp_path / "sdk/pyproject.toml").write_text(f'[project]\nname = "{PUBLISHED}"\n')
    with pytest.raises(CannotBuild, match=r"^di-orchestrator: ") as failure:
        build(tmp_path, tmp_path / "out")
    assert "project.version" in str(failure.value)
