"""Arguments of `di run`: those of the program, its interpreter, its checkpoints."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from di_local.main import FAILED, REFUSED, SUCCEEDED, main
from di_local.watching import start_error

SAVES = """
import json, os, sys
folder = os.environ["DI_CHECKPOINT_DIR"]
open(os.path.join(folder, "saved"), "w").write(json.dumps(sys.argv[1:]))
"""


def run(tmp_path: Path, *arguments: object, **variables: str) -> tuple[int, str]:
    """Return the exit code and the output of `di run`."""
    done = subprocess.run(
        [sys.executable, "-m", "di_local", "run", *map(str, arguments)],
        env={**os.environ, "XDG_STATE_HOME": str(tmp_path / "state"), **variables},
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


def refused(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """Return the output of a command that is refused: in this process, since nothing is started."""
    assert main(["run", *map(str, arguments)]) == REFUSED
    return capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--lr", "0.1"], "--lr 0.1: no option of `di run`; options of the program stand after --"),
        # The beginning of an option of `di run`.
        (["--log", "x"], "train.py -- --log x"),
    ],
)
def test_an_option_of_the_program_is_refused_with_the_right_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    program = tmp_path / "train.py"
    program.write_text("")
    assert message in refused(capsys, program, *arguments).replace("\n", " ")


TRACKED = """
import sys
from tensorboardX import SummaryWriter
with SummaryWriter("events") as writer:
    for step in range(3):
        writer.add_scalar("rollout/ep_rew_mean", 7.5, step)
print(sys.argv[1:])
"""


@pytest.mark.proves("tracking.md#programs-that-log-to-a-tracker/tensorboard")
def test_numbers_of_a_tracked_program_are_shown(tmp_path: Path) -> None:
    program = tmp_path / "train.py"
    program.write_text(TRACKED)
    # A Python that has di_orchestrator.
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    code, shown = run(tmp_path, program, "--track", "--", "--lr", "0.1", PATH=path)
    assert code == SUCCEEDED, shown
    assert "7.5" in shown


@pytest.mark.parametrize("name", ["train.sh", "job.yaml"])
def test_only_python_programs_are_tracked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    (tmp_path / name).write_text("")
    assert "--track is for" in refused(capsys, tmp_path / name, "--track")


def test_a_program_gets_a_directory_for_checkpoints(tmp_path: Path) -> None:
    program, folder = tmp_path / "train.py", tmp_path / "kept"
    program.write_text(SAVES)
    code, shown = run(tmp_path, program, "--checkpoint", folder, "--", "--lr", "0.1")
    assert code == SUCCEEDED, shown
    assert json.loads((folder / "saved").read_text()) == ["--lr", "0.1"]
    assert f"python3 is {shutil.which('python3')}\n" in shown


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("import torch_that_is_missing\n", "ModuleNotFoundError: No module named"),
        ("def train(:\n", "SyntaxError: "),
    ],
)
def test_a_program_that_cannot_start_is_not_restarted(
    tmp_path: Path, text: str, error: str
) -> None:
    program = tmp_path / "train.py"
    program.write_text(f"open('starts', 'a').write('x')\n{text}")
    (tmp_path / "starts").touch()
    code, shown = run(tmp_path, program, "--collectors", "0")
    assert code == FAILED
    assert f"train-learner-0 cannot start, and is not restarted: {error}" in shown
    assert "Failed after" in shown
    # A program with a wrong syntax is not even begun.
    assert len((tmp_path / "starts").read_text()) <= 1


def test_only_errors_of_the_import_end_a_run() -> None:
    assert start_error(["Traceback", "ImportError: libcuda"]) == "ImportError: libcuda"
    for last in ([], ["ValueError: ImportError: x"], ["RuntimeError: out of memory"]):
        assert start_error(last) == ""


def test_a_directory_replaces_the_claim_of_a_manifest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    container = {"name": "di-container", "image": "none", "command": ["python3", "-c", SAVES]}
    task = {"type": "learner", "template": {"spec": {"containers": [container]}}}
    job = {
        "apiVersion": "diengine.opendilab.org/v2alpha1",
        "kind": "DIJob",
        "metadata": {"name": "claims"},
        "spec": {
            "checkpoint": {"persistentVolumeClaim": "elsewhere", "path": "/saved"},
            "tasks": [task],
        },
    }
    manifest = tmp_path / "job.json"
    manifest.write_text(json.dumps(job))
    assert "no claims here" in refused(capsys, manifest)
    code, shown = run(tmp_path, manifest, "--checkpoint", tmp_path / "kept")
    assert code == SUCCEEDED, shown
    assert (tmp_path / "kept" / "saved").exists()


@pytest.mark.proves("dijob.md#spec/artifacts")
def test_artifacts_of_each_pod_are_in_a_directory_of_this_machine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = "import os; open(os.environ['DI_ARTIFACTS_DIR'] + '/result', 'w').write('done')"
    container = {"name": "di-container", "image": "none", "command": ["python3", "-c", program]}
    template = {"spec": {"containers": [container]}}
    kept = {"name": "results", "path": "/results", "persistentVolumeClaim": "elsewhere"}
    job = {
        "apiVersion": "diengine.opendilab.org/v2alpha1",
        "kind": "DIJob",
        "metadata": {"name": "claims"},
        "spec": {
            "artifacts": [kept],
            "tasks": [{"type": "none", "name": "work", "replicas": 2, "template": template}],
        },
    }
    manifest = tmp_path / "job.json"
    manifest.write_text(json.dumps(job))
    assert "no claims here" in refused(capsys, manifest)
    code, shown = run(tmp_path, manifest, "--artifacts", tmp_path / "kept")
    assert code == SUCCEEDED, shown
    (folder,) = (tmp_path / "kept" / "di-artifacts").iterdir()
    assert folder.name.startswith("claims.")
    files = {str(each.relative_to(folder)) for each in folder.rglob("result")}
    assert files == {f"results/claims-work-{index}/result" for index in (0, 1)}
    own = tmp_path / "own.py"
    own.write_text(program)
    assert run(tmp_path, own, "--artifacts", tmp_path / "of-program")[0] == SUCCEEDED
    (found,) = (tmp_path / "of-program").rglob("result")
    assert found.parent.name == "own-learner-0"


def test_help_imports_nothing_that_runs_a_job() -> None:
    code = (
        "import atexit, sys; from di_cli.main import run; "
        "atexit.register(lambda: print('imported', *sys.modules)); run(['run', '--help'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    text, _, imported = done.stdout.partition("imported ")
    assert text.startswith("usage: di run")
    assert not {"di_local.main", "di_operator", "aiohttp", "rich"} & set(imported.split())
