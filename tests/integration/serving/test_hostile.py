"""The command that measures good clients beside bad ones, in short."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.conftest import ROOT, ApiServer
from tests.integration.di_server import running_server

pytestmark = pytest.mark.usefixtures("crd")


def test_a_run_reports_each_kind_of_attack_beside_none(
    api_server: ApiServer, tmp_path: Path
) -> None:
    with running_server(tmp_path, api_server.kubeconfig) as server:
        options = [
            "--kinds=silent,half-request",
            "--connections=3",
            "--visitors=2",
            "--seconds=0.5",
            f"--probe={server.url}/readyz",
        ]
        run = subprocess.run(
            [sys.executable, "-m", "tools.hostile", f"{server.url}/healthz", *options],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        )
    printed, _, line = run.stdout.strip().rpartition("\n")
    results = json.loads(printed)
    assert list(results) == ["clean", "silent", "half-request"]
    for found in results.values():
        assert found["requests"] > 0
        assert (found["failures"], found["probe"]["failures"]) == (0, 0), found
    assert line.startswith("p99 of good clients: clean ")
