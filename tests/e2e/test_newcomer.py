"""The first hour: from a clone to a program of one's own that learns on a cluster."""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path

import pytest

from tests.clones import ROOT, environment, run
from tests.e2e.kubectl import Kubectl
from tests.waiting import wait_until

PAGE = ROOT / "docs/tutorials/4-own-program.md"
(PROGRAM,) = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
NOTEBOOK = """
from di_orchestrator import jobs

job = jobs.submit("train.py", image={image!r}, namespace={namespace!r})
job.wait()
print(job.phase, *job.curves()["return"])
"""
WAITS = """
import time

print({!r}, flush=True)
time.sleep(3600)
"""


@pytest.mark.usefixtures("release")
@pytest.mark.proves("from-python.md#six-lines")
def test_an_own_program_learns_after_two_commands_without_image_or_yaml(
    kubectl: Kubectl,
    *,
    namespace: str,
    python_image: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    python = environment(tmp_path / "venv")
    own = tmp_path / "own"
    own.mkdir()
    (own / "train.py").write_text(PROGRAM)
    (own / "first.py").write_text(NOTEBOOK.format(image=python_image, namespace=namespace))
    pip = (sys.executable, "-m", "pip", "--python", python, "install", "--no-index")
    begun = time.monotonic()
    run(tmp_path, *pip, "--no-build-isolation", "--no-compile", "./sdk[client]")
    installed = time.monotonic()
    said = run(tmp_path, python, "first.py", folder=own, KUBECONFIG=str(kubectl.kubeconfig))
    with capsys.disabled():
        learned = time.monotonic() - installed
        print(f"install {installed - begun:.1f} s, from submit to the curve {learned:.1f} s")
    phase, *curve = said.splitlines()[-1].split()
    assert phase == "Succeeded"
    first, *_, last = map(float, curve)
    assert last > first + 0.1

    def di(*command: str) -> str:
        program = python.parent / "di"
        words = (*command, "--namespace", namespace)
        return run(tmp_path, program, *words, folder=own, KUBECONFIG=str(kubectl.kubeconfig))

    program = own / "edited.py"
    program.write_text(WAITS.format("before"))
    di("submit", "edited.py", "--image", python_image)
    wait_until(lambda: di("logs", "edited").split()[-1:] == ["before"])
    program.write_text(WAITS.format("after"))
    begun = time.monotonic()
    di("push", "edited")
    wait_until(lambda: di("logs", "edited").split()[-1:] == ["after"])
    with capsys.disabled():
        print(f"from the edit to its first line {time.monotonic() - begun:.1f} s")
