"""The words of `di submit` for programs and folders, given to `di run`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from di_local.main import main
from di_local.manifest import Manifest
from di_local.run import Outcome


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Manifest]:
    """The jobs that would run."""
    found: list[Manifest] = []

    def run(manifest: Manifest, options: object) -> Outcome:
        found.append(manifest)
        job = {"status": {"phase": "Succeeded"}}
        return Outcome(job=job, seconds=1, directory=tmp_path)

    monkeypatch.setattr("di_local.main.run_job", run)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").touch()
    return found


def command(manifest: Manifest) -> Any:
    return manifest.job["spec"]["tasks"][0]["template"]["spec"]["containers"][0]["command"]


@pytest.mark.proves("local.md#the-words-of-di-submit")
def test_a_command_line_of_submit_runs_here(
    made: list[Manifest], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    words = ["--collectors", "4", "--with", "requirements.txt", "--gpus", "1", "--", "--lr", "3e-4"]
    assert main(["run", "train.py", *words]) == 0
    (job,) = made
    assert command(job) == ["python3", str(tmp_path / "train.py"), "--lr", "3e-4"]
    said = " ".join(capsys.readouterr().out.split())
    assert "--with: install the requirements yourself" in said
    assert "--gpus: every process here sees all GPUs" in said


def test_a_folder_starts_its_entry_in_itself(made: list[Manifest], tmp_path: Path) -> None:
    folder = tmp_path / "My Project"
    folder.mkdir()
    (folder / "main.py").touch()
    assert main(["run", str(folder)]) == 0
    (folder / "run.sh").touch()
    assert main(["run", str(folder), "--entry", "run.sh", "--name", "other"]) == 0
    first, second = made
    assert command(first) == ["python3", str(folder / "main.py")]
    assert command(second) == [str(folder / "run.sh")]
    assert [each.job["metadata"]["name"] for each in made] == ["my-project", "other"]
    assert {each.directory for each in made} == {folder}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([".", "--entry", "none.py"], "none.py: there is no such file"),
        (["."], ".: which file starts is not clear; name it with --entry"),
        (["train.py", "--entry", "a.py"], "--entry a.py: is for a folder, and train.py is none"),
    ],
)
def test_a_folder_without_its_entry_is_refused(
    made: list[Manifest],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    words: list[str],
    said: str,
) -> None:
    (tmp_path / "second.py").touch()
    assert main(["run", *words]) == 2
    assert f"refused: {said}" in capsys.readouterr().out
    assert made == []
