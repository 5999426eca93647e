"""The gallery's examples that need no cluster run by the command that it gives."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryFile

import pytest

from examples.demo.manifests import ROOT
from examples.gallery import HERE

ENVIRONMENT = {
    **{key: value for key, value in os.environ.items() if not key.startswith("DI_")},
    # A pod runs the python3 of the PATH.
    **{"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "COLUMNS": "200"},
}


def test_examples_without_a_cluster_run_by_the_gallerys_command(tmp_path: Path) -> None:
    """All of them side by side, as most of them wait."""
    environment = {**ENVIRONMENT, "XDG_STATE_HOME": str(tmp_path)}
    started = []
    for example in HERE:
        said = TemporaryFile("w+")  # noqa: SIM115  closed below
        process = subprocess.Popen(
            shlex.split(example.command), cwd=ROOT, env=environment, stdout=said, stderr=said
        )
        started.append((example, process, said))
    ended = []
    for example, process, said in started:
        with said:
            code = process.wait(timeout=240)
            said.seek(0)
            ended.append((example, code, said.read()))
    for example, code, shown in ended:
        assert code == (example.ends != "Succeeded"), shown
        assert re.search(rf"  {example.ends}\b", shown), shown


@pytest.mark.parametrize(
    ("program", "said"), [("plain", " after 300 steps"), ("gymnasium", " steps of the environment")]
)
def test_a_program_of_one_file_runs_outside_a_job(program: str, said: str) -> None:
    done = subprocess.run(
        ["python3", f"examples/{program}/train.py"],
        cwd=ROOT,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert said in done.stdout
