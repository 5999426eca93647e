"""di history, di logs --ended and di rollback, against stand-ins of the two servers."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from di_cli.edits.rollback import difference, patch_to
from di_cli.exit_codes import ExitCode
from di_cli.views.history import ended_pods, merged, timeline
from tests.fakes.history import KEPT, Service, answering
from tests.unit.cli.conftest import JOBS, Di, job

Object = dict[str, Any]
ALL_TOKENS = "/api/v1/namespaces/di-system/serviceaccounts/di-history/token"


@pytest.fixture
def service(di: Di, monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    with answering() as found:
        monkeypatch.setenv("DI_HISTORY_URL", found.url)
        yield found


@pytest.mark.proves("cli.md#what-happened")
def test_the_history_of_a_deleted_job(di: Di, service: Service) -> None:
    said = di("history", "cartpole", "-n", "rl")
    assert (said.code, said.err) == (0, "")
    assert said.lines == [
        "cartpole created 2026-03-01 09:00:00 by kubectl-create, deleted 2026-03-01 11:30:00",
        "TIME                 WHAT     DETAILS",
        "2026-03-01 09:00:10  phase    Starting -> Running 3 pods ready",
        "2026-03-01 09:10:00  scaling  collector 2 -> 0 by di-server",
        "2026-03-01 11:18:58  failure  cartpole-learner-0 exit code 137 OOMKilled",
        "                                a",
        "                                MemoryError  [31m",
        "2026-03-01 11:25:00  gap      nobody looked since 2026-03-01 11:20:00; changed: "
        "status.phase",
        "2026-03-01 11:30:00  deleted  not before 2026-03-01 11:29:00; only the audit log of "
        "the API server has who deleted it",
        "",
        "REVISION  TIME                 BY",
        "1         2026-03-01 09:00:00  kubectl-create",
    ]
    assert service.asked == [("/v1/jobs/rl/cartpole", "Bearer secret")]
    assert not [path for _, path, _ in di.world.requests if path.endswith("/token")]


def test_the_history_shows_where_pods_ran(di: Di, service: Service) -> None:
    said = di("history", "cartpole", "-n", "rl", "--pods")
    assert said.lines[1].split() == [
        *("cartpole-learner-0", "gpu-3", "2026-03-01", "09:00:00", "2026-03-01", "11:18:58"),
        *("Failed", "OOMKilled"),
    ]


def test_a_revision_can_be_submitted_again(di: Di, service: Service) -> None:
    manifest = {"kind": "DIJob", "spec": {"a": 1}}
    service.answers["/v1/jobs/rl/cartpole/revisions/1"] = manifest
    said = di("history", "cartpole", "-n", "rl", "--revision", "1", "--uid", "u1")
    assert said.out == "kind: DIJob\nspec:\n  a: 1\n"
    assert service.asked[0][0] == "/v1/jobs/rl/cartpole/revisions/1?uid=u1"


@pytest.mark.proves("own-code.md#bundles-of-a-job")
def test_the_difference_of_two_revisions_names_their_code(di: Di, service: Service) -> None:
    code = {"configMap": "train-code-1", "sha256": "1" * 64, "revision": "5b3c1f0e"}
    pushed = {"configMap": "train-code-2", "sha256": "2" * 64, "revision": "5b3c1f0e-dirty"}
    for number, spec in ((1, {"code": code}), (3, {"code": pushed}), (4, {}), (5, {})):
        path = f"/v1/jobs/rl/cartpole/revisions/{number}"
        service.answers[path] = {"kind": "DIJob", "spec": spec}
    said = di("history", "cartpole", "-n", "rl", "--diff", "1", "3")
    assert said.lines[:2] == [
        "code of revision 1: 111111111111, git 5b3c1f0e",
        "code of revision 3: 222222222222, git 5b3c1f0e-dirty",
    ]
    assert "-    configMap: train-code-1" in said.lines
    assert "+    configMap: train-code-2" in said.lines
    one_without = di("history", "cartpole", "-n", "rl", "--diff", "4", "3").lines
    assert one_without[0] == "code of revision 4: none"
    same = di("history", "cartpole", "-n", "rl", "--diff", "4", "5")
    assert same.out == "cartpole has the same spec in both revisions\n"
    assert di("history", "--diff", "1", "2").code == ExitCode.USAGE


def test_the_history_as_json_is_complete(di: Di, service: Service) -> None:
    assert json.loads(di("history", "cartpole", "-n", "rl", "-o", "json").out) == KEPT


def test_ended_jobs_and_earlier_runs_are_listed_with_their_uids(di: Di, service: Service) -> None:
    run = {**KEPT["job"], "uid": "u1", "completed": "2026-03-01T11:19:00.000Z"}
    service.answers["/v1/jobs"] = {"jobs": [run]}
    listed = [
        "JOB       PHASE   CREATED              ENDED                BY              UID",
        "cartpole  Failed  2026-03-01 09:00:00  2026-03-01 11:19:00  kubectl-create  u1",
    ]
    for words, query in (
        ((), "namespace=rl&over=true"),
        (("cartpole", "--runs"), "namespace=rl&name=cartpole"),
    ):
        assert di("history", *words, "-n", "rl").lines == listed
        assert service.asked[-1][0] == f"/v1/jobs?{query}"
    assert json.loads(di("history", "-n", "rl", "-o", "json").out) == [run]
    assert di("history", "--pods").code == ExitCode.USAGE


def test_the_logs_of_an_earlier_run_are_chosen_by_its_uid(di: Di, service: Service) -> None:
    assert di("logs", "cartpole", "-n", "rl", "--ended", "--uid", "u1", "--rank", "0").code == 0
    assert [path for path, _ in service.asked] == [
        "/v1/jobs/rl/cartpole?uid=u1",
        "/v1/jobs/rl/cartpole/logs/cartpole-learner-0?uid=u1",
    ]
    assert di("logs", "cartpole", "--uid", "u1").code == ExitCode.USAGE


@pytest.mark.parametrize(
    ("status", "code", "hint"),
    [
        (404, ExitCode.NOT_FOUND, "di -n rl list"),
        (403, ExitCode.NOT_ALLOWED, "kubectl -n rl auth can-i --list; the role view"),
        (503, ExitCode.UNAVAILABLE, "try again"),
    ],
)
def test_a_refusal_of_the_history_names_a_remedy(
    di: Di, service: Service, status: int, code: ExitCode, hint: str
) -> None:
    service.status = status
    said = di("history", "cartpole", "-n", "rl")
    assert said.code == code
    assert "refused: x" in said.err
    assert hint in said.err


def test_an_account_of_another_namespace_reads_the_history_of_all(di: Di, service: Service) -> None:
    said = di("history", "cartpole", "-n", "rl", "--account", "tools/reader")
    assert said.code == 0
    (asked,) = [path for _, path, _ in di.world.requests if path.endswith("/token")]
    assert asked == "/api/v1/namespaces/tools/serviceaccounts/reader/token"
    assert service.asked == [("/v1/jobs/rl/cartpole", "Bearer made")]
    service.status = 403
    refused = di("history", "cartpole", "-n", "rl", "--account", "tools/reader").err
    assert "create rolebinding reader-view --clusterrole view --serviceaccount tools:" in refused


@pytest.fixture
def with_certificate(di: Di) -> None:
    """The user of the kubeconfig has no token; `di` has written it."""
    file = Path(os.environ["KUBECONFIG"])
    body = json.loads(file.read_text())
    body["users"][0]["user"] = {}
    file.write_text(json.dumps(body))


@pytest.mark.usefixtures("with_certificate")
def test_an_administrator_without_a_token_reads_it_as_its_account(di: Di, service: Service) -> None:
    assert di("history", "cartpole", "-n", "rl").code == 0
    (asked,) = [body for _, path, body in di.world.requests if path == ALL_TOKENS]
    assert asked["spec"]["audiences"] == ["di-history"]
    assert service.asked == [("/v1/jobs/rl/cartpole", "Bearer made")]


@pytest.mark.usefixtures("with_certificate")
def test_a_user_without_a_token_is_asked_for_an_account(di: Di, service: Service) -> None:
    di.world.refusals["POST", ALL_TOKENS] = {"code": 403, "reason": "Forbidden"}
    said = di("history", "cartpole", "-n", "rl")
    assert said.code == ExitCode.NOT_ALLOWED
    assert "your kubeconfig has no token to show to di-history" in said.err
    assert service.asked == []
    assert di("history", "cartpole", "-n", "rl", "--account", "default").code == 0


def test_the_history_gets_tokens_over_https_only(di: Di, service: Service) -> None:
    said = di("history", "cartpole", "-n", "rl", "--server", "http://history.example:8080")
    assert said.code == ExitCode.FAILED
    assert "https address alone" in said.err
    assert service.asked == []


@pytest.mark.proves("dashboard.md#rights/what-the-history-has")
def test_without_an_address_kubectl_forwards_a_port(
    di: Di, service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = service.server.server_address[1]
    words = tmp_path / "words"
    program = tmp_path / "kubectl"
    program.write_text(
        f'#!/bin/sh\necho "$@" > {words}\n'
        f'echo "Forwarding from 127.0.0.1:{port} -> 8080"\nexec sleep 60\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.delenv("DI_HISTORY_URL")
    assert di("history", "cartpole", "-n", "rl").code == 0
    assert words.read_text().split() == [
        *("--namespace", "di-system", "port-forward", "deployment/di-history", ":8080"),
        *("--address", "127.0.0.1"),
    ]


def test_a_failed_port_forward_shows_kubectls_message(
    di: Di, service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "kubectl"
    program.write_text('#!/bin/sh\necho "deployments di-history not found" >&2\nexit 1\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.delenv("DI_HISTORY_URL")
    said = di("history", "cartpole", "-n", "rl")
    assert said.code == ExitCode.UNAVAILABLE
    assert "deployments di-history not found" in said.err


def test_logs_of_ended_pods_are_merged_by_time(di: Di, service: Service) -> None:
    said = di("logs", "cartpole", "-n", "rl", "--ended")
    assert said.lines == [
        "cartpole-learner-0    a",
        "cartpole-collector-0  b",
        "cartpole-learner-0    c",
    ]
    one = di("logs", "cartpole", "-n", "rl", "--ended", "--task", "learner", "--tail", "1")
    assert one.lines == ["cartpole-learner-0  c"]


def test_missing_ended_logs_are_not_found(di: Di, service: Service) -> None:
    said = di("logs", "cartpole", "-n", "rl", "--ended", "--rank", "7")
    assert said.code == ExitCode.NOT_FOUND
    assert di("logs", "cartpole", "--ended", "-f").code == ExitCode.USAGE


@pytest.mark.proves("cli.md#what-happened")
def test_a_rollback_does_what_its_dry_run_shows(di: Di, service: Service) -> None:
    _roll(di, service)
    shown = di("rollback", "cartpole", "-n", "rl", "--to", "1", "--dry-run")
    done = di("rollback", "cartpole", "-n", "rl", "--to", "1", "--yes")
    assert (shown.code, done.code) == (0, 0)
    assert "-    replicas: 2" in shown.lines
    assert "+    replicas: 1" in shown.lines
    assert shown.lines[-1] == "dijob/cartpole would be rolled back to revision 1 (dry run)"
    assert done.lines[-1] == "dijob/cartpole rolled back to revision 1"
    patches = [(path, body) for method, path, body in di.world.requests if method == "PATCH"]
    # Tried twice, done once.
    assert ["dryRun=All" in path for path, _ in patches] == [True, True, False]
    assert "fieldManager=di-rollback" in patches[-1][0]
    assert patches[-1][1][0]["op"] == "test"
    # Of this job, and of none before it that had its name.
    assert "uid=uid-cartpole" in service.asked[0][0]


@pytest.mark.parametrize("place", [{}, {"persistentVolumeClaim": "shared"}], ids=["map", "claim"])
def test_a_rollback_brings_code_back_unless_its_bundle_was_deleted(
    di: Di, service: Service, place: dict[str, str]
) -> None:
    found = di.job()
    now = {"configMap": "code-2", "sha256": "2" * 64}
    # While its ConfigMap exists, a bundle on a claim is kept.
    then = {"configMap": "code-1", "sha256": "1" * 64, "revision": "abc-dirty", **place}
    di.world.put(f"{JOBS}/cartpole", {**found, "spec": {**found["spec"], "code": now}})
    spec = {**found["spec"], "code": then}
    service.answers["/v1/jobs/rl/cartpole/revisions/1"] = {"spec": spec}
    words = ("rollback", "cartpole", "-n", "rl", "--to", "1", "--yes")
    said = di(*words)
    assert said.err.splitlines() == [
        "error: dijob/cartpole was not rolled back: the code of that revision was deleted",
        "  ConfigMap rl/code-1",
        "  try: git checkout abc; di -n rl push cartpole",
    ]
    assert di.world.objects[f"{JOBS}/cartpole"]["spec"]["code"] == now
    maps = "/api/v1/namespaces/rl/configmaps"
    di.world.put(f"{maps}/code-1", {"metadata": {"name": "code-1"}})
    assert di(*words).code == 0
    assert di.world.objects[f"{JOBS}/cartpole"]["spec"]["code"] == then


def test_a_declined_rollback_changes_nothing(
    di: Di, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    _roll(di, service)
    monkeypatch.setattr("typer.confirm", lambda *_, **__: False)
    assert di("rollback", "cartpole", "-n", "rl", "--to", "1").code == ExitCode.FAILED
    assert all("dryRun" in path for method, path, _ in di.world.requests if method == "PATCH")


def test_a_rollback_to_the_present_spec_does_nothing(di: Di, service: Service) -> None:
    found = di.job()
    service.answers["/v1/jobs/rl/cartpole/revisions/1"] = {"spec": found["spec"]}
    said = di("rollback", "cartpole", "-n", "rl", "--to", "1")
    assert said.lines == ["dijob/cartpole has the spec of revision 1 already"]


def test_a_rollback_patch_tests_the_spec_that_was_shown() -> None:
    found = {"metadata": {"uid": "u", "generation": 7}, "spec": {"b": 2}}
    assert patch_to(found, {"spec": {"a": 1}}) == [
        {"op": "test", "path": "/metadata/uid", "value": "u"},
        {"op": "test", "path": "/metadata/generation", "value": 7},
        {"op": "replace", "path": "/spec", "value": {"a": 1}},
    ]
    assert difference(found, {"spec": {"a": 1}}) == [
        "@@ -1,2 +1,2 @@",
        " spec:",
        "-  b: 2",
        "+  a: 1",
    ]
    assert difference(found, found) == []


def test_ended_logs_are_selected_by_task_and_merged() -> None:
    assert ended_pods(KEPT, None, None) == ["cartpole-learner-0", "cartpole-collector-0"]
    assert ended_pods(KEPT, "collector", None) == ["cartpole-collector-0"]
    assert merged([("a", "2 x\n1 y"), ("b", "1 z")], 1) == [("a", "y"), ("b", "z")]


def _roll(di: Di, service: Service) -> None:
    di.job()
    earlier = job("cartpole", "Running")["spec"]
    earlier["tasks"][1]["replicas"] = 1
    service.answers["/v1/jobs/rl/cartpole/revisions/1"] = {"spec": earlier}


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        (
            {
                "kind": "allocation",
                "before": {},
                "after": {"learner": {"n2": 1, "n1": 2}, "collector": {"n1": 1}},
            },
            "nowhere -> 3 on n1, 1 on n2",
        ),
        ({"kind": "deleted", "expired": True}, "its ttlSecondsAfterFinished was over"),
        (
            {"kind": "gap", "changed": ["spec", "status"]},
            "changed: spec, status",
        ),
    ],
    ids=lambda value: value["kind"] if isinstance(value, dict) else "",
)
def test_an_entry_of_the_history_is_described_in_one_line(entry: dict[str, Any], text: str) -> None:
    ((_, _, line),) = timeline({"timeline": [{"at": "2026-01-01T12:00:00.000Z", **entry}]})
    assert text in line
