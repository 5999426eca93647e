"""Lock files agree, and a disagreement is reported with package, versions and files."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.release import locks
from tools.release.locks import Pin, Waivers, disagreements, lock_files, pins, stale
from tools.release.version import ROOT

NONE = Waivers(apart={}, accepted={})
PYTHONS = ("3.11.2", "3.13.99")


def pin(version: str, file: str, *, marker: str = "", name: str = "flask") -> Pin:
    return Pin(ecosystem="PyPI", name=name, version=version, file=file, marker=marker)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Two locks that disagree, and what the Pythons are read from."""
    for folder, version in (("a", "3.1.3"), ("b", "3.1.2")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "requirements.lock").write_text(
            f"Flask=={version} \\\n    --hash=sha256:{'0' * 64}\n"
        )
    (tmp_path / "services" / "operator").mkdir(parents=True)
    (tmp_path / "services" / "operator" / "Dockerfile").write_text("ARG BASE=python:3.13-slim\n")
    (tmp_path / "pyproject.toml").write_text('[project]\nrequires-python = ">=3.11.2"\n')
    return tmp_path


@pytest.mark.proves("security.md#images-and-dependencies")
def test_all_lock_files_agree() -> None:
    assert locks.main() == 0


def test_all_lock_files_are_read() -> None:
    files = {str(file.relative_to(ROOT)) for file in lock_files(ROOT)}
    assert {pin.file for pin in pins(ROOT)} == files
    assert {
        "uv.lock",
        "services/build.lock",
        "examples/di-engine/requirements.lock",
        "dashboard/package-lock.json",
    } <= files
    assert not any(file.startswith(".venv") for file in files)


def test_a_disagreement_names_package_versions_and_files(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert locks.main(root) == 1
    first, last = capsys.readouterr().err.splitlines()
    assert first.startswith(
        "flask: 3.1.2 in b/requirements.lock; 3.1.3 in a/requirements.lock (Python 3.11.2, "
    )
    assert "make lock" in last


def test_a_folder_may_keep_versions_of_its_own_for_a_reason(root: Path) -> None:
    project = root / "pyproject.toml"
    project.write_text(project.read_text() + '[tool.locks.apart]\nb = "another world"\n')
    assert locks.main(root) == 0
    (root / "b" / "requirements.lock").write_text((root / "a" / "requirements.lock").read_text())
    # A reason that is none any more.
    assert locks.main(root) == 1


def test_the_lock_of_the_product_is_compared_with_the_examples(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (root / "b" / "requirements.lock").rename(root / "b" / "gone")
    (root / "uv.lock").write_text(
        '[[package]]\nname = "di-api"\nversion = "1"\nsource = { editable = "libraries/api" }\n'
        '[[package]]\nname = "flask"\nversion = "3.1.2"\nsource = { registry = "index" }\n'
        "resolution-markers = [\"python_full_version < '3.12'\"]\n"
    )
    assert locks.main(root) == 1
    fault = "flask: 3.1.2 in uv.lock; 3.1.3 in a/requirements.lock (Python 3.11.2)"
    assert capsys.readouterr().err.splitlines()[0] == fault


def test_versions_are_compared_for_the_same_python() -> None:
    old = pin("1", "a", marker="python_full_version < '3.12'")
    new = pin("2", "a", marker="python_full_version >= '3.12'")
    assert disagreements([old, new], PYTHONS, NONE) == []
    assert disagreements([old, new, pin("1", "b")], PYTHONS, NONE) == [
        "flask: 1 in b; 2 in a (Python 3.13.99)"
    ]


def test_what_another_system_installs_is_not_compared() -> None:
    elsewhere = pin("1", "a", marker="sys_platform == 'win32'")
    assert disagreements([elsewhere, pin("2", "b")], PYTHONS, NONE) == []


def test_an_exception_for_no_folder_is_reported() -> None:
    waivers = Waivers(apart={"gone": "once"}, accepted={})
    assert stale([pin("1", "a/x.lock")], PYTHONS, waivers) == [
        "pyproject.toml: tool.locks.apart: gone needs no exception any more"
    ]


def test_a_lock_that_cannot_be_read_is_an_error(root: Path) -> None:
    for text in ("", "flask\n", "flask==1 \\\n    --hash=sha256:00\nclick\n"):
        (root / "a" / "requirements.lock").write_text(text)
        with pytest.raises(ValueError, match=r"a/requirements.lock.* pins nothing"):
            pins(root)
