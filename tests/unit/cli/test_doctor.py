"""`di doctor`: its findings, its requests and its exit code."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest
import yaml

from di_cli.exit_codes import ExitCode
from di_cli.survey import REFUSED_JOB
from di_local import runs
from tests.unit.cli.conftest import JOBS, Di, install
from tests.unit.cli.installation import DENIED, NOW, deployment, quota

FORBIDDEN = {"code": 403, "reason": "Forbidden", "message": "forbidden"}
PROBE = f"{JOBS}/{REFUSED_JOB['metadata']['name']}"
ALL_DEPLOYMENTS = "/apis/apps/v1/deployments"
VALIDATING = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"


@pytest.fixture
def installed(di: Di, monkeypatch: pytest.MonkeyPatch) -> Di:
    """With a release that is well, but for what is not read of it."""
    monkeypatch.setattr("di_cli.survey.local_now", lambda: NOW)
    install(di)
    di.world.put("/apis/apps/v1/namespaces/di-system/deployments/di-webhook", deployment("webhook"))
    di.world.put("/api/v1/namespaces/rl/resourcequotas/team", quota("10", "3"))
    di.world.refusals["POST", PROBE] = {**FORBIDDEN, "message": DENIED}
    return di


def _found(di: Di, *words: str) -> tuple[int, dict[str, list[dict[str, Any]]]]:
    said = di("doctor", "-o", "json", *words)
    topics: dict[str, list[dict[str, Any]]] = {}
    for finding in json.loads(said.out)["findings"]:
        topics.setdefault(finding.pop("topic"), []).append(finding)
    return said.code, topics


def test_an_unread_topic_is_no_fault(installed: Di) -> None:
    code, found = _found(installed)
    assert code == ExitCode.DONE
    assert {topic: [each["severity"] for each in said] for topic, said in found.items()} == {
        "server": ["unread"]
    }
    assert installed("doctor").lines[-1] == "14 topics: 1 not looked at"


@pytest.mark.proves("cli.md#doctor")
def test_a_fault_has_its_own_exit_code(installed: Di) -> None:
    path = "/apis/coordination.k8s.io/v1/namespaces/di-system/leases/di-operator"
    installed.world.remove(path)
    code, found = _found(installed)
    assert code == ExitCode.FAULTS_FOUND
    (finding,) = found["operator"]
    assert finding["severity"] == "fault"
    assert finding["where"] == "Lease di-system/di-operator"


@pytest.mark.proves("cli.md#doctor")
def test_doctor_changes_nothing(installed: Di) -> None:
    before = dict(installed.world.objects)
    installed("doctor")
    assert installed.world.objects == before
    posted = [path for method, path, _ in installed.world.requests if method == "POST"]
    assert [path.partition("?")[2] for path in posted if "dijobs" in path] == ["dryRun=All"]
    assert {method for method, *_ in installed.world.requests} == {"GET", "POST"}


def test_the_release_is_found_through_the_webhook(installed: Di) -> None:
    installed.world.refusals["GET", ALL_DEPLOYMENTS] = FORBIDDEN
    _, found = _found(installed)
    assert "installation" not in found
    installed.world.refusals["GET", VALIDATING] = FORBIDDEN
    installed.world.requests.clear()
    _found(installed, "--system-namespace", "elsewhere")
    asked = [path.partition("?")[0] for _, path, _ in installed.world.requests]
    assert "/apis/apps/v1/namespaces/elsewhere/deployments" in asked
    assert "/apis/coordination.k8s.io/v1/namespaces/elsewhere/leases" in asked


def test_a_server_without_https_is_probed_over_http(installed: Di) -> None:
    services = "/api/v1/namespaces/di-system/services"
    installed.world.refusals["GET", f"{services}/https:di-server:8443/proxy/readyz"] = {
        "code": 503,
        "message": 'no service port 8443 found for service "di-server"',
    }
    installed.world.put(f"{services}/http:di-server:8081/proxy/readyz", {"metadata": {}})
    _, found = _found(installed)
    assert not found


def test_a_killed_local_run_is_a_finding(installed: Di, tmp_path: Path) -> None:
    state = runs.state_directory({"XDG_STATE_HOME": str(tmp_path / "state")})
    for job in ("over", "killed", "alive"):
        noted = runs.note(
            runs.new_directory(state, job, NOW),
            {"metadata": {"name": job, "namespace": "default"}},
            url="http://127.0.0.1:1",
            token="t",
            began=NOW,
        )
        about = noted.directory / "run.json"
        if job == "over":
            runs.close(noted)
        if job == "killed":
            # No process has that number.
            about.write_text(json.dumps({**json.loads(about.read_text()), "pid": 2**22 + 1}))
    _, found = _found(installed)
    assert [Path(each["where"]).name.split("-")[2] for each in found["local"]] == ["killed"]


def test_an_unreachable_api_server_is_a_finding(
    di: Di, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        file = tmp_path / "away"
        config = yaml.safe_load(di.world.kubeconfig(file).read_text())
        server = f"http://127.0.0.1:{nobody.getsockname()[1]}"
        config["clusters"][0]["cluster"]["server"] = server
        file.write_text(yaml.safe_dump(config))
        monkeypatch.setenv("KUBECONFIG", str(file))
        code, found = _found(di)
    assert code == ExitCode.FAULTS_FOUND
    assert list(found) == ["cluster"]
    assert found["cluster"][0]["what"] == "the API server does not answer"
