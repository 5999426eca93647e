"""`di doctor` and `di bundle` on a release that is well."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest

from di_cli.exit_codes import ExitCode
from di_cli.main import run
from tests.e2e.jobs import job, task
from tests.e2e.kubectl import Kubectl
from tests.e2e.pods import wait_for_phase

SECRET = "s3cr3t-Hunter2"


@pytest.mark.usefixtures("release", "shell")
def test_a_release_that_is_well_has_no_faults(
    kubectl: Kubectl,
    namespace: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    code = run(["doctor", "--namespace", namespace, "-o", "json"])
    report = json.loads(capsys.readouterr().out)
    found = {each["topic"] for each in report["findings"]}
    # What this cluster has not, and what other tests leave on this machine.
    assert found <= {"metrics", "local", "nodes"}, report
    assert code == ExitCode.DONE
    assert len(report["topics"]) == 14


@pytest.mark.usefixtures("shell")
def test_an_archive_has_the_logs_of_job_and_release_and_no_secret(
    kubectl: Kubectl,
    namespace: str,
    python_image: str,
    tmp_path: Path,
) -> None:
    program = "import os; print('connects as', os.environ['DB_PASSWORD']); raise SystemExit(3)"
    learner = task("learner", image=python_image, program=program)
    container = learner["template"]["spec"]["containers"][0]
    container["env"] = [{"name": "DB_PASSWORD", "value": SECRET}]
    kubectl.apply(job("x", namespace=namespace, tasks=[learner], backoffLimit=0))
    wait_for_phase(kubectl, "x", "Failed", namespace=namespace)

    file = tmp_path / "x.tar.gz"
    assert run(["bundle", "x", "--namespace", namespace, "--yes", "-o", str(file)]) == 0
    with tarfile.open(file) as tar:
        read = {each.name: tar.extractfile(each) for each in tar}
        found = {name: each.read().decode() for name, each in read.items() if each is not None}
    log = found["di-bundle/jobs/x/logs/x-learner-0.di-container.log"]
    assert log.endswith("connects as [redacted]\n")
    assert json.loads(found["di-bundle/jobs/x/why.json"])["cause"] == "BackoffLimit"
    for component in ("operator", "webhook", "server"):
        assert any(f"release/logs/di-{component}-" in name for name in found), list(found)
    assert SECRET not in "".join(found.values())
