"""The short form of `make fuzz`: a minute for all targets and both servers, side by side."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from di_server.coordination import operations as coordination_operations
from di_server.jobs import operations as job_operations
from tests.integration.conftest import ROOT, ApiServer
from tools.fuzz import campaign, rest
from tools.fuzz.campaign import Limits
from tools.fuzz.targets import TARGETS

pytestmark = pytest.mark.usefixtures("crd")
SECONDS = 60
OPERATIONS = [
    each.name for each in (*job_operations.OPERATIONS, *coordination_operations.OPERATIONS)
]


def test_nothing_gives_way_in_a_minute(
    api_server: ApiServer, namespace: str, tmp_path: Path
) -> None:
    with ThreadPoolExecutor(1) as aside:
        served = aside.submit(
            rest.run,
            api_server.kubeconfig,
            api_server.binary("kubectl"),
            namespace,
            tmp_path,
            seconds=SECONDS,
        )
        fed = campaign.run(
            list(TARGETS.values()), Limits(seconds=SECONDS), tmp_path, lanes=len(TARGETS)
        )
        asked = served.result()
    assert [each.line for each in fed if each.wrong] == []
    assert [server.line for server in asked if server.wrong] == []
    for each in fed:
        assert each.runs > len(list(TARGETS[each.target].seeds.iterdir()))
        assert each.covered
    for server in asked:
        assert server.answers.keys() & OPERATIONS


def test_the_command_reports_a_target_and_ends_with_a_line(tmp_path: Path) -> None:
    options = ["--only=ids", "--runs=2000", "--seconds=30", f"--out={tmp_path}"]
    run = subprocess.run(
        [sys.executable, "-m", "tools.fuzz", *options],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    target, line = run.stdout.splitlines()
    assert target.startswith("ids: 2000 inputs, ")
    assert line.startswith("fuzz: 2000 inputs to 1 targets in ")
    assert (tmp_path / "report.json").exists()
