"""The first hour: from a clone to a program of one's own that learns on a cluster."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from tests.clones import environment, run
from tests.e2e.kubectl import Kubectl

PROGRAM = """
import math, random, time
import di_orchestrator as di

random.seed(1)
chances, wishes = [0.1, 0.3, 0.5, 0.9], [0.0] * 4
with di.training(total_steps=20) as training:
    for step in range(1, 21):
        won = 0
        for _ in range(100):
            shares = [math.exp(wish) for wish in wishes]
            arm = random.choices(range(4), shares)[0]
            reward = random.random() < chances[arm]
            won += reward
            for each in range(4):
                chosen = (each == arm) - shares[each] / sum(shares)
                wishes[each] += 0.01 * (reward - 0.5) * chosen
        training.report(step, episodeReturn=won / 100)
        time.sleep(0.5)
"""
NOTEBOOK = """
from di_orchestrator import jobs

job = jobs.submit("train.py", image={image!r}, namespace={namespace!r})
job.wait()
print(job.phase, *job.curves()["return"])
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
