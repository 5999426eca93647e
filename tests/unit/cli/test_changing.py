"""Commands that change something."""

from __future__ import annotations

import json
import ssl
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from di_certs.files import write_certificates
from di_cli.exit_codes import ExitCode
from tests.fakes.web import Handler, serving
from tests.unit.cli.conftest import JOBS, Di, job

MANIFEST = """
apiVersion: diengine.opendilab.org/v2alpha1
kind: DIJob
metadata: {name: cartpole}
spec:
  tasks:
  - type: learner
    template: {spec: {containers: [{name: di-container, image: a}, {name: side, image: s}]}}
  - {name: actors, type: collector, template: {spec: {containers: [{name: c, image: a}]}}}
"""


@pytest.fixture
def manifest(tmp_path: Path) -> str:
    file = tmp_path / "job.yaml"
    file.write_text(MANIFEST)
    return str(file)


def sent(di: Di, method: str) -> Any:
    """Path and body of the last request of a method."""
    return next((path, body) for kind, path, body in reversed(di.world.requests) if kind == method)


def test_a_manifest_is_submitted_unchanged(di: Di, manifest: str) -> None:
    said = di("submit", manifest)
    assert (said.code, said.lines) == (0, ["dijob/cartpole submitted"])
    # The API server refuses misspelt fields, which it would drop otherwise.
    assert sent(di, "POST") == (f"{JOBS}?fieldValidation=Strict", yaml.safe_load(MANIFEST))


def test_flags_change_name_images_and_replicas(di: Di, manifest: str) -> None:
    flags = ["--name", "two", "--image", "b", "--image", "actors=c", "--replicas", "actors=4"]
    assert di("submit", manifest, *flags, "-n", "other").code == 0
    path, body = sent(di, "POST")
    assert path.partition("?")[0].endswith("/namespaces/other/dijobs")
    learner, actors = body["spec"]["tasks"]
    images = [each["image"] for each in learner["template"]["spec"]["containers"]]
    assert (body["metadata"]["name"], images) == ("two", ["b", "s"])
    assert (actors["replicas"], actors["template"]["spec"]["containers"][0]["image"]) == (4, "c")


def test_a_dry_run_stores_nothing(di: Di, manifest: str) -> None:
    assert di("submit", manifest, "--dry-run", "server").lines == [
        "dijob/cartpole would be taken (dry run)"
    ]
    assert "dryRun=All" in sent(di, "POST")[0]
    assert not di.world.objects


def test_a_job_is_submitted_from_stdin(
    di: Di, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, manifest: str
) -> None:
    with Path(manifest).open() as file:
        monkeypatch.setattr("sys.stdin", file)
        assert di("submit", "-").lines == ["dijob/cartpole submitted"]


def test_a_refusal_of_the_webhook_names_each_field(di: Di, manifest: str) -> None:
    causes = [
        {"field": "spec.tasks[0].replicas", "message": "0: must be at least 1"},
        {"field": "spec.backofLimit", "message": "unknown field; did you mean backoffLimit?"},
    ]
    refusal = {"code": 422, "reason": "Invalid", "message": "long", "details": {"causes": causes}}
    di.world.refusals["POST", JOBS] = refusal
    said = di("submit", manifest)
    assert said.err.splitlines() == [
        f"error: {manifest}: DIJob rl/cartpole: refused, it breaks the rules",
        "  spec.tasks[0].replicas: 0: must be at least 1",
        "  spec.backofLimit: unknown field; did you mean backoffLimit?",
        "  try: correct the fields and try again; kubectl explain dijob.spec has them all",
    ]
    assert said.code == ExitCode.FAILED


@pytest.mark.parametrize(
    ("status", "said", "code"),
    [
        ({"code": 409, "reason": "AlreadyExists"}, "there is one of that name", ExitCode.FAILED),
        ({"code": 401, "reason": "Unauthorized"}, "does not know you", ExitCode.NOT_ALLOWED),
        ({"code": 403, "reason": "Forbidden"}, "you may not do that", ExitCode.NOT_ALLOWED),
        (
            {"code": 500, "message": 'failed calling webhook "v": connection refused'},
            "an admission webhook does not answer",
            ExitCode.FAILED,
        ),
        (
            {"code": 404, "message": "the server could not find the requested resource"},
            "this cluster knows no DIJobs",
            ExitCode.NOT_FOUND,
        ),
    ],
)
def test_other_refusals_are_reported_in_three_lines(
    di: Di, manifest: str, status: Any, said: str, code: ExitCode
) -> None:
    di.world.refusals["POST", JOBS] = status
    found = di("submit", manifest)
    assert said in found.err.splitlines()[0]
    assert len(found.err.splitlines()) <= 3
    assert found.code == code


@pytest.mark.parametrize(
    ("text", "flags", "where"),
    [
        ("kind: Pod", [], "is a Pod, and no DIJob"),
        ("kind: DIJob\napiVersion: v9", [], "apiVersion 'v9'"),
        ("a: [", [], "while parsing"),
        ("- 1", [], "document 1 is no object"),
        (MANIFEST, ["--replicas", "x=2"], "the job has no task x; its tasks are learner, actors"),
        (MANIFEST, ["--replicas", "2"], "give TASK=COUNT"),
    ],
)
def test_a_bad_manifest_is_not_submitted(
    di: Di, tmp_path: Path, text: str, flags: list[str], where: str
) -> None:
    good, bad = tmp_path / "good.yaml", tmp_path / "bad.yaml"
    good.write_text(MANIFEST)
    bad.write_text(text)
    said = di("submit", str(good), str(bad), *flags)
    assert said.err.startswith("error: nothing was submitted\n")
    assert where in said.err
    assert said.code == ExitCode.FAILED
    assert not di.world.requests


def test_suspend_resume_and_delete(di: Di) -> None:
    di.job()
    assert di("suspend", "cartpole").lines == ["dijob/cartpole suspended"]
    # One that its queue keeps suspended leaves the queue.
    mine = {"annotations": {"diengine/suspended-by": None}}
    patch = {"metadata": mine, "spec": {"suspend": True}}
    assert sent(di, "PATCH") == (f"{JOBS}/cartpole", patch)
    assert di("resume", "cartpole").lines == ["dijob/cartpole resumed"]
    assert di.world.objects[f"{JOBS}/cartpole"]["spec"]["suspend"] is False
    assert di("delete", "cartpole", "--wait").lines == [
        "dijob/cartpole is being deleted",
        "dijob/cartpole is gone",
    ]
    assert di("delete", "cartpole").code == ExitCode.NOT_FOUND


@pytest.mark.parametrize(
    ("words", "path", "told"),
    [
        ([], "/spec/restartedAt", ""),
        (["--task", "collector"], "/spec/tasks/1/restartedAt", ": task collector"),
    ],
)
def test_each_restart_request_has_a_new_time(
    di: Di, words: list[str], path: str, told: str
) -> None:
    di.job()
    before = di.world.objects[f"{JOBS}/cartpole"]["metadata"]["resourceVersion"]
    assert di("restart", "cartpole", *words).lines == [f"dijob/cartpole restarts{told}"]
    version, first = sent(di, "PATCH")[1]
    assert version == {"op": "replace", "path": "/metadata/resourceVersion", "value": before}
    assert (first["op"], first["path"]) == ("add", path)
    assert datetime.fromisoformat(first["value"]).tzinfo is not None
    assert di("restart", "cartpole", *words).code == 0
    assert sent(di, "PATCH")[1][1]["value"] > first["value"]


_DELETED = {"deletionTimestamp": "2026-03-01T11:59:00Z"}


@pytest.mark.parametrize(
    ("changes", "where", "remedy"),
    [
        ({"status": {"phase": "Succeeded"}}, "it is Succeeded, and what is over is not", "di get"),
        ({"status": {"phase": "Failed"}}, "it is Failed, and what is over is not", "di get"),
        ({"spec": {"suspend": True}}, "it is suspended and has no pods", "di resume cartpole"),
        ({"metadata": _DELETED}, "it is being deleted", "di list"),
        ({"spec": {"coordinated": {}}}, "a job with a coordinator has no tasks", "di restart"),
        ({}, "the job has no task x; its tasks are learner, collector", "di describe cartpole"),
    ],
)
def test_a_refused_restart_names_its_reason(
    di: Di, changes: dict[str, Any], where: str, remedy: str
) -> None:
    job = di.job()
    for key, value in changes.items():
        job[key] |= value
    di.world.put(f"{JOBS}/cartpole", job)
    said = di("restart", "cartpole", "--task", "x")
    first, second, third = said.err.splitlines()
    assert (said.code, first) == (ExitCode.FAILED, "error: dijob/cartpole was not restarted")
    assert where in second
    assert third.startswith(f"  try: {remedy}")
    assert {method for method, _, _ in di.world.requests} == {"GET"}


def test_a_restart_fails_where_the_cluster_drops_the_field(
    di: Di, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = di.job()
    monkeypatch.setattr("di_kube.sync.SyncKubeClient.patch", lambda *_, **__: found)
    said = di("restart", "cartpole")
    assert "the cluster's version of DIJob has no restartedAt" in said.err
    assert "try: di suspend cartpole; di resume cartpole" in said.err
    assert said.code == ExitCode.FAILED


def test_delete_by_labels_deletes_the_jobs_that_have_them(di: Di) -> None:
    for name, team in (("one", "a"), ("two", "b"), ("three", "a")):
        body = job(name, "Running")
        body["metadata"]["labels"] = {"team": team}
        di.world.put(f"{JOBS}/{name}", body)
    assert sorted(di("delete", "-l", "team=a").lines) == [
        "dijob/one deleted",
        "dijob/three deleted",
    ]
    assert di("delete", "-l", "team=a").lines == ["no jobs have the labels team=a"]
    assert di("list", "-o", "name").lines == ["dijob/two"]


def test_a_missing_job_keeps_no_other_from_being_deleted(di: Di) -> None:
    di.job("one")
    di.job("two")
    said = di("delete", "one", "nope", "two")
    assert said.lines == ["dijob/one deleted", "dijob/two deleted"]
    assert said.code == ExitCode.NOT_FOUND
    assert "nope" in said.err


@pytest.mark.parametrize("words", [[], ["-l", ""], ["-l", " "], ["one", "-l", "team=a"]])
def test_delete_needs_names_or_labels(di: Di, words: list[str]) -> None:
    di.job("one")
    assert di("delete", *words).code == ExitCode.USAGE
    assert di("list", "-o", "name").lines == ["dijob/one"]


def test_a_delete_that_takes_too_long_times_out(di: Di, monkeypatch: pytest.MonkeyPatch) -> None:
    di.job()
    monkeypatch.setattr(di.world, "remove", di.world.objects.get)
    said = di("delete", "cartpole", "--wait", "--timeout", "0.01")
    assert said.code == ExitCode.TIMED_OUT
    assert "is still there after 0.01 s" in said.err


def test_set_changes_mutable_fields(di: Di) -> None:
    di.job()
    before = di.world.objects[f"{JOBS}/cartpole"]["metadata"]["resourceVersion"]
    said = di(
        *("set", "cartpole", "priority=high", "tasks.collector.maxReplicas=8"),
        *("progressPolicy.timeoutSeconds=60", "progressPolicy.action=Notify"),
        *("tasks.collector.backoffLimit=", "priority="),
    )
    assert said.code == 0, said.err
    assert sent(di, "PATCH")[1] == [
        {"op": "replace", "path": "/metadata/resourceVersion", "value": before},
        {"op": "add", "path": "/spec/priority", "value": "high"},
        {"op": "add", "path": "/spec/tasks/1/maxReplicas", "value": 8},
        {"op": "add", "path": "/spec/progressPolicy", "value": {}},
        {"op": "add", "path": "/spec/progressPolicy/timeoutSeconds", "value": 60},
        {"op": "add", "path": "/spec/progressPolicy/action", "value": "Notify"},
        {"op": "remove", "path": "/spec/priority"},
    ]


@pytest.mark.parametrize(
    ("assignment", "where"),
    [
        ("preemptible=true", "preemptible may not change while the job exists"),
        ("tasks.collector.maxReplica=8", "did you mean tasks.TASK.maxReplicas?"),
        ("tasks.actors.replicas=8", "the job has no task actors; its tasks are learner, collector"),
        ("priority", "give FIELD=VALUE"),
    ],
)
def test_set_refuses_immutable_and_unknown_fields(di: Di, assignment: str, where: str) -> None:
    di.job()
    said = di("set", "cartpole", assignment)
    assert where in said.err
    assert said.code == ExitCode.USAGE
    assert not [each for each in di.world.requests if each[0] == "PATCH"]


def test_set_lists_the_mutable_fields(di: Di) -> None:
    assert {"suspend", "tasks.TASK.replicas", "priority"} <= {*di("set", "cartpole").lines}


@pytest.mark.parametrize(
    ("wish", "after"), [("4", 4), ("collector=3", 3), ("collector=+1", 3), ("collector=-1", 1)]
)
def test_scale_changes_the_replicas_of_a_task(di: Di, wish: str, after: int) -> None:
    di.job()
    assert di("scale", "cartpole", wish).lines == [f"dijob/cartpole scaled: collector 2 -> {after}"]
    assert di.world.objects[f"{JOBS}/cartpole"]["spec"]["tasks"][1]["replicas"] == after


def test_scale_says_when_it_replaces_a_whole_process_group(di: Di) -> None:
    found = di.job()
    found["spec"]["tasks"][1]["processGroup"] = {"framework": "torch"}
    (line,) = di("scale", "cartpole", "collector=3").lines
    assert line == (
        "dijob/cartpole scaled: collector 2 -> 3; the process group of task collector has a fixed "
        "size: scaling replaces all its pods, which go on from their last checkpoint"
    )


@pytest.mark.parametrize(
    ("wish", "where"),
    [
        ("collector=5", "at most 4 replicas (maxReplicas); it would have 5"),
        ("collector=-2", "at least 1 replicas; it would have 0"),
        ("actors=2", "the job has no task actors"),
    ],
)
def test_scale_keeps_to_the_bounds(di: Di, wish: str, where: str) -> None:
    di.job()
    said = di("scale", "cartpole", wish)
    assert where in said.err
    assert said.code == ExitCode.FAILED
    assert di("scale", "cartpole", "many").code == ExitCode.USAGE


def test_a_logged_in_user_scales_through_di_server(di: Di, tmp_path: Path) -> None:
    """With a token that the API server makes for it alone, under the name in its certificate."""
    name = "di-server.di-system.svc"
    write_certificates(tmp_path, [name], now=datetime.now(UTC), lifetime=timedelta(days=1))
    with _di_server(tmp_path) as (url, asked):
        flags = ["--server", url, "--certificate-authority", str(tmp_path / "ca.crt")]
        said = di("login", "--account", "ann", *flags)
        assert said.code == 0, said.err
        path, body = sent(di, "POST")
        assert path == "/api/v1/namespaces/rl/serviceaccounts/ann/token"
        assert body["spec"] == {"audiences": ["di-server"], "expirationSeconds": 3600}
        refused = di("scale", "cartpole", "collector=+1")
        assert (refused.code, asked) == (ExitCode.UNAVAILABLE, [])
        assert "Hostname mismatch" in refused.err
        assert di("login", "--account", "ann", *flags, "--tls-server-name", name).code == 0
        assert di("scale", "cartpole", "collector=+1").lines == [
            "dijob/cartpole scaled: collector 2 -> 3, by di-server"
        ]
        di.job()
        assert di("scale", "cartpole", "collector=1").code == 0
        said = di("scale", "cartpole", "collector=+2")
        assert said.code == ExitCode.NOT_ALLOWED
        assert "you may not" in said.err
        assert [each[:3] for each in asked] == [
            ("POST", "Bearer made", {"task": "collector", "replicas": 1}),
            ("DELETE", "Bearer made", {"task": "collector", "replicas": 1}),
            ("POST", "Bearer made", {"task": "collector", "replicas": 2}),
        ]
        assert len({each[3] for each in asked}) == 3
    assert di("scale", "cartpole", "collector=+1").code == ExitCode.UNAVAILABLE
    assert di("login", "--out").code == 0
    assert di("scale", "cartpole", "3").lines == ["dijob/cartpole scaled: collector 2 -> 3"]


@contextmanager
def _di_server(folder: Path) -> Iterator[tuple[str, list[tuple[str, str, Any, str]]]]:
    """A server with a certificate; its third answer is a refusal. Method, token, body and key of
    each request."""
    asked: list[tuple[str, str, Any, str]] = []

    class Scaling(Handler):
        def _serve(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            assert self.path == "/v2alpha1/rl.cartpole/replicas"
            key = self.headers["Idempotency-Key"]
            asked.append((self.command, self.headers["Authorization"], body, key))
            is_refused = len(asked) == 3
            data = {"task": "collector", "replicas": 3}
            answer = {"message": "you may not"} if is_refused else {"data": data}
            self.answer(403 if is_refused else 200, json.dumps(answer).encode())

        do_POST = do_DELETE = _serve

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "tls.crt", folder / "tls.key")
    with ThreadingHTTPServer(("127.0.0.1", 0), Scaling) as server:
        server.handle_error = lambda *_: None  # type: ignore[method-assign]  # of a client that left
        server.socket = context.wrap_socket(server.socket, server_side=True)
        with serving(server):
            yield f"https://localhost:{server.server_port}", asked


def test_a_token_file_is_private_and_removed_when_it_expires(
    di: Di, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    di("login", "--server", "https://di-server:8443")
    (file,) = (tmp_path / "state/di").iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    kept = json.loads(file.read_text())
    file.write_text(json.dumps(kept | {"expires": "2026-03-01T11:59:59Z"}))
    di.job()
    assert "by di-server" not in di("scale", "cartpole", "3").out
    assert not file.exists()


def test_login_refuses_an_unreadable_authority(di: Di, tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_text("none")
    flags = ["--server", "https://x", "--certificate-authority", str(tmp_path / "ca.crt")]
    assert di("login", *flags).err.startswith("error: the authority cannot be read")
    assert not di.world.requests


def test_login_sends_tokens_to_https_only(di: Di) -> None:
    assert "https address alone" in di("login", "--server", "http://di-server:8081").err
    assert not di.world.requests


def test_wait_ends_at_the_goal_at_failure_and_at_the_timeout(di: Di) -> None:
    di.job()
    running = di("wait", "cartpole", "--for", "phase=running")
    assert (running.code, running.lines) == (0, ["dijob/cartpole: phase=running"])
    assert di("wait", "cartpole", "--for", "condition=Running").code == 0
    assert di("wait", "cartpole", "--timeout", "0.01").code == ExitCode.TIMED_OUT
    di.job(phase="Failed")
    failed = di("wait", "cartpole")
    assert failed.code == ExitCode.ENDED_OTHERWISE
    assert failed.err.splitlines() == [
        "error: dijob/cartpole is Failed, and will not be phase=Succeeded",
        "  try: di why cartpole",
    ]
    assert di("wait", "cartpole", "--for", "phase=Gone").code == ExitCode.USAGE
    assert di("wait", "nothing").code == ExitCode.NOT_FOUND
    assert di("wait", "nothing", "--for", "delete").code == 0


@pytest.mark.proves("dijob.md#one-template-for-all-tasks")
def test_a_base_of_all_templates_is_merged_before_flags_change_them(di: Di, tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(
        "apiVersion: diengine.opendilab.org/v2alpha1\nkind: DIJob\nmetadata: {name: cartpole}\n"
        "spec:\n  template: {spec: {containers: [{name: di-container, image: a}]}}\n"
        "  tasks: [{type: learner}, {type: collector}]\n"
    )
    assert di("submit", str(file), "--image", "collector=b").code == 0
    spec = sent(di, "POST")[1]["spec"]
    images = [task["template"]["spec"]["containers"][0]["image"] for task in spec["tasks"]]
    assert (images, "template" in spec) == (["a", "b"], False)
