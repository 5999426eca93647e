"""A version is written everywhere by one command, and a place that was forgotten is found."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

import di_orchestrator
from tools.release import version
from tools.release.version import PLACES, ROOT, BadVersion


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of all files that say the version."""
    for pattern in ("pyproject.toml", *(place.files for place in PLACES)):
        for file in ROOT.glob(pattern):
            copy = tmp_path / file.relative_to(ROOT)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, copy)
    return tmp_path


def test_all_places_have_the_present_version() -> None:
    assert list(version.stale(ROOT, version.present(ROOT))) == []


def test_one_command_writes_every_place(tree: Path) -> None:
    changed = version.write(tree, "9.8.7")
    assert list(version.stale(tree, "9.8.7")) == []
    assert version.present(tree) == "9.8.7"
    chart = yaml.safe_load((tree / "charts/di-orchestrator/Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == ("9.8.7", "9.8.7")
    assert '__version__ = "9.8.7"' in (tree / "sdk/src/di_orchestrator/__init__.py").read_text()
    assert '"di-kube==9.8.7"' in (tree / "cli/pyproject.toml").read_text()
    assert len(changed) == len(set(changed)) > 15
    assert version.write(tree, "9.8.7") == []


def test_every_package_is_among_the_places() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "*pyproject.toml"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    every = {ROOT / line for line in listed.splitlines()}
    named = {file for place in PLACES for file in ROOT.glob(place.files)}
    assert every - named == {ROOT / "pyproject.toml"}


@pytest.mark.parametrize(
    ("file", "before", "after"),
    [
        ("sdk/pyproject.toml", r"(?m)^version = .*$", 'version = "0.0.9"'),
        ("libraries/api/pyproject.toml", r"(?m)^version = .*$", 'version = "0.0.9"'),
        ("cli/pyproject.toml", r'"di-kube==[^"]*"', '"di-kube"'),
        ("charts/di-orchestrator/Chart.yaml", r"(?m)^appVersion: .*$", "appVersion: 0.0.9"),
        ("sdk/src/di_orchestrator/__init__.py", r"(?m)^__version__ = .*$", ""),
    ],
)
def test_a_place_with_another_version_is_found(
    tree: Path, file: str, before: str, after: str
) -> None:
    path = tree / file
    text, count = re.subn(before, after, path.read_text())
    assert count == 1
    path.write_text(text)
    (line,) = version.stale(tree, version.present(tree))
    assert line.startswith(f"{file}: ")


@pytest.mark.parametrize("bad", ["0.2", "v0.2.0", "0.2.0-rc.1", "0.2.0rc1", "01.2.0", ""])
def test_a_version_that_python_or_helm_refuses_is_refused(tree: Path, bad: str) -> None:
    with pytest.raises(BadVersion, match="three numbers"):
        version.checked(bad)


def test_a_program_can_read_the_version() -> None:
    assert di_orchestrator.__version__ == version.present(ROOT)
