"""`di bundle`: the contents of the archive, their list, and its permissions."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from di_cli.exit_codes import ExitCode
from tests.unit.cli.conftest import JOBS, Di, install, job
from tests.unit.cli.installation import NOW

SECRET = "s3cr3t-Hunter2"
RELEASE = "/api/v1/namespaces/di-system/pods"


@pytest.fixture
def ill(di: Di, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Di:
    """A cluster with a job that prints its password, in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("di_cli.survey.local_now", lambda: NOW)
    install(di)
    found = job("cartpole", "Running")
    container = found["spec"]["tasks"][0]["template"]["spec"]["containers"][0]
    container["env"] = [{"name": "DB_PASSWORD", "value": SECRET}]
    di.world.put(f"{JOBS}/cartpole", found)
    statuses = [
        {
            "name": "di-container",
            "state": {"running": {}},
            "lastState": {"terminated": {"exitCode": 1}},
        }
    ]
    name = di.pod("cartpole", "learner", 0, 0, containerStatuses=statuses)
    di.world.logs[name] = [f"2026-03-01T11:00:00Z connects as {SECRET}"]
    di.world.logs[f"{name}/previous"] = ["2026-03-01T10:00:00Z KeyError"]
    labels = {"app.kubernetes.io/name": "di-orchestrator"}
    operator = {
        "metadata": {"name": "di-operator-1", "labels": labels},
        "status": {"containerStatuses": [{"name": "di-operator", "state": {"running": {}}}]},
    }
    di.world.put(f"{RELEASE}/di-operator-1", operator)
    di.world.logs["di-operator-1"] = ["2026-03-01T11:00:00Z leads"]
    return di


def _contents(file: str) -> dict[str, str]:
    with tarfile.open(file) as tar:
        found = {}
        for entry in tar:
            member = tar.extractfile(entry)
            assert member is not None
            found[entry.name.removeprefix("di-bundle/")] = member.read().decode()
        return found


@pytest.mark.proves("cli.md#an-archive-for-support")
def test_an_archive_explains_the_job_and_contains_no_secret(ill: Di) -> None:
    said = ill("bundle", "cartpole", "-o", "x.tar.gz", "--yes")
    assert said.code == ExitCode.DONE, said.err
    found = _contents("x.tar.gz")
    assert json.loads(found["jobs/cartpole/why.json"])["cause"] == "Running"
    assert json.loads(found["jobs/cartpole/job.json"])["status"]["phase"] == "Running"
    logs = "jobs/cartpole/logs/cartpole-learner-0.di-container"
    assert found[f"{logs}.log"] == "2026-03-01T11:00:00Z connects as [redacted]\n"
    assert found[f"{logs}.previous.log"] == "2026-03-01T10:00:00Z KeyError\n"
    assert "leads" in found["release/logs/di-operator-1.di-operator.log"]
    doctor: dict[str, Any] = json.loads(found["doctor.json"])
    assert "webhook" in {each["topic"] for each in doctor["findings"]}
    assert json.loads(found["versions.json"])["kubernetes"][0]["gitVersion"] == "v1.33.0"
    assert SECRET not in "".join(found.values())
    assert Path("x.tar.gz").stat().st_mode & 0o777 == 0o600
    # All that is in it was listed.
    listed = {line.split()[-1] for line in said.lines[1:-1]}
    assert listed == set(found)


def test_a_bundle_requests_no_secrets(ill: Di) -> None:
    ill("bundle", "--all", "-o", "x.tar.gz", "--yes")
    assert "jobs/cartpole/job.json" in _contents("x.tar.gz")
    assert not [path for _, path, _ in ill.world.requests if "/secrets" in path]


def test_a_bundle_has_the_end_of_a_long_log(ill: Di) -> None:
    lines = [f"2026-03-01T11:00:00Z line {i} {'x' * 4000}" for i in range(1000)]
    ill.world.logs["cartpole-learner-0"] = lines
    ill("bundle", "cartpole", "-y", "-o", "x.tar.gz")
    found = _contents("x.tar.gz")
    path = "jobs/cartpole/logs/cartpole-learner-0.di-container.log"
    kept = found[path].splitlines()
    assert kept == lines[-len(kept) :]
    assert len(found[path]) <= 1 << 20
    assert f"{path}: {500 - len(kept)} earlier lines are left out" in found["README.txt"]


def test_a_bundle_lists_what_it_could_not_read(ill: Di) -> None:
    forbidden = {"code": 403, "reason": "Forbidden", "message": "pods is forbidden"}
    ill.world.refusals["GET", RELEASE] = forbidden
    assert ill("bundle", "cartpole", "-y", "-o", "x.tar.gz").code == ExitCode.DONE
    assert "pods of namespace di-system: pods is forbidden" in _contents("x.tar.gz")["README.txt"]


@pytest.mark.proves("cli.md#an-archive-for-support")
def test_a_bundle_is_written_after_a_confirmation_only(
    ill: Di, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = ill("bundle", "cartpole")
    assert (said.code, "--yes" in said.err) == (ExitCode.USAGE, True)
    assert any(line.endswith("jobs/cartpole/job.json") for line in said.lines)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    for answer in (False, True):
        assert not Path("di-bundle.tar.gz").exists()
        monkeypatch.setattr("typer.confirm", lambda _, answer=answer: answer)
        assert ill("bundle", "cartpole").code == ExitCode.DONE
    assert Path("di-bundle.tar.gz").exists()


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["bundle"], ExitCode.USAGE),
        (["bundle", "cartpole", "--all"], ExitCode.USAGE),
        (["bundle", "none", "--yes"], ExitCode.NOT_FOUND),
        (["bundle", "cartpole", "--yes", "-o", "there"], ExitCode.FAILED),
        (["bundle", "cartpole", "--yes", "-o", "no/folder/x"], ExitCode.FAILED),
    ],
)
def test_a_bundle_that_fails_leaves_no_file(ill: Di, words: list[str], code: ExitCode) -> None:
    Path("there").write_text("mine")
    assert ill(*words).code == code
    assert Path("there").read_text() == "mine"
    assert [path.name for path in Path().iterdir() if "bundle" in path.name] == []
