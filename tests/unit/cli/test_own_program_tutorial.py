"""The tutorial "your program on a cluster": its program learns, and its commands work."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import pytest

from tests.unit.cli.conftest import JOBS, Di

PAGE = Path(__file__).resolve().parents[3] / "docs/tutorials/4-own-program.md"


def blocks(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)


def test_the_program_learns(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (program,) = blocks("python")
    monkeypatch.setattr("time.sleep", lambda _: None)
    monkeypatch.setattr(sys, "argv", ["train.py"])
    exec(compile(program, "train.py", "exec"), {})
    returns = [float(line.split()[-1]) for line in capsys.readouterr().out.splitlines()]
    assert len(returns) == 20
    assert returns[-1] > returns[0] + 0.1


def test_the_commands_print_what_the_tutorial_shows(
    di: Di, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (program,) = blocks("python")
    (tmp_path / "train.py").write_text(program)
    (tmp_path / "requirements.txt").write_text("numpy\n")
    commands = 0
    for block in blocks("console"):
        for entry in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            line, *shown = entry.splitlines()
            if line.startswith("di push"):
                (tmp_path / "train.py").write_text(program.replace("0.01", "0.05"))
            said = di(*shlex.split(line)[1:])
            assert said.code == 0, said.err
            got = (said.err + said.out).splitlines()
            for wanted, line_of_it in zip(shown, got, strict=shown != ["..."]):
                assert line_of_it.startswith(wanted.removesuffix("...")), line
            commands += 1
    assert commands == 6
    learner, collector = di.world.objects[f"{JOBS}/gpu"]["spec"]["tasks"]
    (container,) = learner["template"]["spec"]["containers"]
    assert container["resources"]["limits"] == {"nvidia.com/gpu": "1"}
    assert (collector["type"], collector["replicas"]) == ("collector", 2)
