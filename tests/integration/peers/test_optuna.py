"""Trials on this machine that a real study of Optuna chooses."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from tests.waiting import START_SECONDS
from tools.prepare.environments import TRACKERS

_PROGRAM = """
    import os
    import time
    import di_orchestrator as di

    x = float(os.environ["X"])
    with di.training(total_steps=3) as run:
        for step in (1, 2, 3):
            run.report(step, score=-(x - 2) ** 2 + step)
            if x == 10:
                # Only the pruner ends it.
                di.leaving().wait()
            time.sleep(1.1)
"""
_STUDY = """
    import json
    import sys

    sys.path.append(sys.argv[1])
    import optuna
    from di_orchestrator import jobs

    study = optuna.create_study(
        direction="maximize",
        sampler=optuna.samplers.TPESampler(seed=1, n_startup_trials=2),
        pruner=optuna.pruners.ThresholdPruner(lower=-10.0),
    )
    study.enqueue_trial({"x": 10.0})
    study.enqueue_trial({"x": 2.0})
    jobs.local().optimize(study, "sweep.yaml", parallelism=2)
    print(json.dumps([[t.state.name, t.params["x"], t.value] for t in study.trials]))
"""


@pytest.mark.proves("sweeps.md#optuna")
def test_a_real_study_chooses_prunes_and_finds_the_best(tmp_path: Path) -> None:
    container = {"name": "di-container", "image": "none", "command": ["python3", "train.py"]}
    task = {"type": "learner", "template": {"spec": {"containers": [container]}}}
    manifest = {
        "apiVersion": "diengine.opendilab.org/v2alpha1",
        "kind": "DISweep",
        "metadata": {"name": "tune"},
        "spec": {
            "objective": {"metric": "score"},
            "maxTrials": 4,
            "parameters": [
                {"name": "x", "environment": "X", "uniform": {"min": 0, "max": 10}},
            ],
            "template": {"spec": {"backoffLimit": 0, "tasks": [task]}},
        },
    }
    (tmp_path / "train.py").write_text(dedent(_PROGRAM))
    (tmp_path / "sweep.yaml").write_text(json.dumps(manifest))
    (tmp_path / "study.py").write_text(dedent(_STUDY))
    python = TRACKERS.python()
    (packages,) = python.parent.parent.glob("lib/*/site-packages")
    done = subprocess.run(
        [sys.executable, tmp_path / "study.py", packages],
        cwd=tmp_path,
        env={**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")},
        capture_output=True,
        text=True,
        timeout=4 * START_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    trials = json.loads(done.stdout)
    assert trials[0][:2] == ["PRUNED", 10.0]
    assert trials[1] == ["COMPLETE", 2.0, 3.0]
    assert len(trials) == 4
    for state, x, value in trials[2:]:
        assert state == "PRUNED" or value == pytest.approx(3 - (x - 2) ** 2)
