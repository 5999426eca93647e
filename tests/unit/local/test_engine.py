"""Which container engine is found, and the message without one. The real one: tests/e2e."""

from __future__ import annotations

from pathlib import Path

import pytest

from di_local.engine import NoEngine, find_engine
from di_local.main import main


def program(folder: Path, name: str, body: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


def test_the_first_installed_engine_is_found(tmp_path: Path) -> None:
    program(tmp_path, "nerdctl", "exit 0")
    program(tmp_path, "docker", "exit 0")
    found = find_engine(None, ["--gpus=all"], {"PATH": str(tmp_path)})
    assert found.command == (str(tmp_path / "docker"),)
    assert (found.name, found.options) == ("docker", ("--gpus=all",))


def test_an_engine_may_be_named_with_options(tmp_path: Path) -> None:
    program(tmp_path, "docker", "exit 0")
    program(tmp_path, "mine", '[ "$1" = --there ]')
    found = find_engine("mine --there", [], {"PATH": str(tmp_path)})
    assert found.command == (str(tmp_path / "mine"), "--there")


def test_without_an_engine_the_supported_ones_are_named(tmp_path: Path) -> None:
    with pytest.raises(NoEngine, match="none of podman, docker, nerdctl on this machine"):
        find_engine(None, [], {"PATH": str(tmp_path)})
    with pytest.raises(NoEngine, match="no mine on this machine"):
        find_engine("mine", [], {"PATH": str(tmp_path)})


def test_an_engine_that_does_not_work_is_quoted(tmp_path: Path) -> None:
    program(tmp_path, "docker", "echo first >&2; echo no daemon >&2; exit 1")
    with pytest.raises(NoEngine, match=r"^docker does not work: no daemon$"):
        find_engine(None, [], {"PATH": str(tmp_path)})


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--image", "a", "--containers"], "--image is in place of the manifest's images"),
        (["--engine", "docker"], "--engine and --engine-option are for --image or --containers"),
        (["--engine-option=-q"], "--engine and --engine-option are for --image or --containers"),
    ],
)
def test_options_that_contradict_each_other_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    (tmp_path / "train.py").write_text("")
    assert main(["run", str(tmp_path / "train.py"), *words]) == 2
    assert f"refused: {said}" in capsys.readouterr().out
