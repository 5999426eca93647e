"""Which files of a folder or a program are taken."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from di_cli.code import files
from di_cli.code.files import packages, take
from di_cli.code.local_imports import left_behind
from di_cli.errors import CommandError
from tests.unit.cli.code.conftest import git


def write(folder: Path, *names: str) -> None:
    for name in names:
        place = folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(name)


@pytest.mark.proves("own-code.md#which-files-are-taken")
def test_a_repository_gives_what_git_tracks_and_does_not_ignore(folder: Path) -> None:
    git(folder, "init", "-q")
    write(folder, ".gitignore", "lib/a.py", "data/big.bin", "gone.py")
    (folder / ".gitignore").write_text("data/\n")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "a")
    commit = git(folder, "rev-parse", "HEAD")
    assert take(folder).revision == commit
    (folder / "gone.py").unlink()
    write(folder, "new.py")
    taken = take(folder)
    assert set(taken.files) == {".gitignore", "lib/a.py", "new.py", "train.py"}
    assert taken.revision == f"{commit}-dirty"
    assert take(folder / "lib").files.keys() == {"a.py"}
    assert take(folder / "train.py").revision == commit


def test_a_folder_without_git_gives_all_its_files(folder: Path) -> None:
    write(folder, "lib/a.py", "__pycache__/a.pyc", ".venv/bin/python", "lib/.git/config")
    (folder / "run.sh").write_text("#!/bin/sh\n")
    (folder / "run.sh").chmod(0o755)
    taken = take(folder)
    assert set(taken.files) == {"lib/a.py", "run.sh", "train.py"}
    assert [name for name, file in taken.files.items() if file.is_executable] == ["run.sh"]
    assert taken.revision is None


def test_without_git_installed_a_folder_is_walked(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(folder, "init", "-q")
    monkeypatch.setenv("PATH", "")
    assert set(take(folder).files) == {"train.py"}


def test_the_ignore_file_leaves_out_names_and_paths(folder: Path) -> None:
    write(folder, "a.ckpt", "deep/b.ckpt", "data/x", "deep/data/y", "top", "deep/top")
    (folder / ".diignore").write_text("# results\n*.ckpt\n\ndata/\n/top\n")
    assert set(take(folder).files) == {"train.py", "deep/top"}


@pytest.mark.parametrize("pattern", ["!keep.py", "a/**/b"])
def test_patterns_that_are_not_supported_are_refused(folder: Path, pattern: str) -> None:
    (folder / ".diignore").write_text(pattern)
    with pytest.raises(CommandError, match=r"\.diignore has the pattern"):
        take(folder)


@pytest.mark.proves("own-code.md#secrets")
def test_secrets_are_left_out_and_named(folder: Path) -> None:
    secrets = [".env", ".env.local", "deep/id_rsa", "a.pem", ".kube/config", ".aws/credentials"]
    write(folder, *secrets, "environment.py")
    (folder / "notes.txt").write_text("x\n-----BEGIN OPENSSH PRIVATE KEY-----\n")
    taken = take(folder)
    assert set(taken.files) == {"environment.py", "train.py"}
    assert sorted(taken.secrets) == sorted([*secrets, "notes.txt"])


def test_links_out_of_the_folder_and_pipes_are_skipped(folder: Path) -> None:
    (folder.parent / "outside").write_text("x")
    (folder / "out").symlink_to(folder.parent / "outside")
    (folder / "broken").symlink_to("nothing")
    (folder / "inside").symlink_to("train.py")
    os.mkfifo(folder / "pipe")
    taken = take(folder)
    assert sorted(taken.skipped) == ["broken", "out", "pipe"]
    assert taken.files["inside"] == taken.files["train.py"]


def test_folders_with_too_many_bytes_are_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(folder, "a", "b")
    monkeypatch.setattr(files, "MOST_BYTES", 21)
    with pytest.raises(CommandError) as refused:
        take(folder)
    assert refused.value.where == "up to and with train.py"
    monkeypatch.setattr(files, "MOST_BYTES", 3)
    with pytest.raises(CommandError, match="has more than"):
        take(folder / "train.py")


def test_a_program_comes_alone_with_its_requirements(folder: Path) -> None:
    write(folder, "model.py", "requirements.txt")
    needed = folder / "requirements.txt"
    taken = take(folder / "train.py", requirements=needed)
    assert set(taken.files) == {"train.py", "requirements.txt"}
    with pytest.raises(CommandError, match="there is no file nothing"):
        take(folder / "train.py", requirements=Path("nothing"))


def test_a_file_that_cannot_be_read_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def read(path: Path) -> bytes:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "read_bytes", read)
    with pytest.raises(CommandError, match=r"train\.py cannot be read"):
        take(folder / "train.py")


def test_the_modules_beside_a_program_are_found(folder: Path) -> None:
    write(folder, "model.py", "lib/__init__.py", "other.py")
    source = b"import os, model\nfrom lib.a import b\nfrom . import c\n"
    assert left_behind(folder / "train.py", source) == ["lib", "model"]
    assert left_behind(folder / "train.py", b"import (") == []


def test_the_packages_of_training_programs_are_complete() -> None:
    found = packages()
    names = {name.split("/")[1] for name in found}
    assert names >= {"di_orchestrator", "requests", "urllib3", "idna", "certifi"}
    assert ".di-fallback/certifi/cacert.pem" in found
    assert not [name for name in found if "__pycache__" in name or "/contrib/" in name]


def test_without_the_package_nothing_is_added(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "find_spec", lambda name: None)
    assert packages() == {}
