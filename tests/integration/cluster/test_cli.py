"""The command `di` against the real API server: what it reads, changes and is refused."""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
import os
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from di_cli.exit_codes import ExitCode
from di_cli.main import run
from di_kube.config import KubeConfig
from di_kube.errors import ApiError
from di_kube.resources import (
    CONFIGMAPS,
    DEPLOYMENTS,
    DIJOBS,
    LEASES,
    QUOTAS,
    SERVICES,
    VALIDATING_WEBHOOKS,
)
from di_kube.sync import SyncKubeClient
from tests.fakes.history import answering
from tests.integration.conftest import ApiServer
from tests.integration.operator_testbed import Testbed, job, task, with_testbed
from tests.integration.service_accounts import token_of
from tests.programs import Program
from tests.waiting import wait_until

pytestmark = pytest.mark.usefixtures("crd")
_DRIVER = """
import io, json, sys
from contextlib import redirect_stderr, redirect_stdout
from di_cli.main import run
for line in sys.stdin:
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
        code = run(json.loads(line))
    print(json.dumps([code, out.getvalue(), err.getvalue()]), flush=True)
"""

Object = dict[str, Any]
ALL = {"a-learn-0", "a-collect-0", "a-collect-1"}


@dataclass(frozen=True, slots=True)
class Di:
    """Runs commands in this process, as the user of a kubeconfig, in a namespace."""

    namespace: str
    capture: Any

    def __call__(self, *words: str) -> tuple[int, str, str]:
        self.capture.readouterr()
        code = run([*words, "-n", self.namespace])
        out, err = self.capture.readouterr()
        return code, out, err


@pytest.fixture
def di(
    api_server: ApiServer,
    namespace: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> Di:
    monkeypatch.setenv("KUBECONFIG", str(api_server.kubeconfig))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return Di(namespace, capsys)


@with_testbed
async def test_a_job_is_followed_and_changed_through_its_life(
    testbed: Testbed, api_server: ApiServer, namespace: str, tmp_path: Path
) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(yaml.safe_dump(job("a", task("learn"), task("collect", 2))))

    with _program(api_server.kubeconfig) as program:

        async def said(*words: str) -> str:
            return await asyncio.to_thread(program, [*words, "-n", namespace])

        await _follow(testbed, said, file)


async def _follow(testbed: Testbed, said: Callable[..., Awaitable[str]], file: Path) -> None:
    async with testbed.operator():
        assert "would be taken" in await said("submit", str(file), "--dry-run", "server")
        assert "no jobs in namespace" in await said("list")
        submitted = await said("submit", str(file), "--replicas", "collect=3")
        assert submitted == "dijob/a submitted\n"
        await said("wait", "a", "--for", "phase=Running", "--timeout", "60")
        shown = json.loads(await said("get", "a", "-o", "json"))
        assert (shown["status"]["readyReplicas"], shown["status"]["replicas"]) == (4, 4)
        described = await said("describe", "a")
        for rank, pod in enumerate(["a-learn-0", *(f"a-collect-{i}" for i in range(3))]):
            assert f"{rank}     {pod}" in described

        async def tells_of_running() -> bool:
            return "JobRunning" in await said("events", "a")

        await testbed.until(tells_of_running, "the event, which comes after the phase")
        assert (await said("why", "a")).startswith("a runs: all 4 pods are ready")
        await said("scale", "a", "collect=-1")
        await said("set", "a", "backoffLimit=5", "tasks.collect.maxReplicas=6")

        async def has_fewer() -> bool:
            return {*await testbed.pods("a")} == ALL

        await testbed.until(has_fewer, "the third collector to go")
        spec = (await testbed.job("a"))["spec"]
        assert (spec["backoffLimit"], spec["tasks"][1]["maxReplicas"]) == (5, 6)
        await _restart(testbed, said)
        await said("suspend", "a")
        await said("wait", "a", "--for", "condition=Suspended", "--timeout", "60")
        assert (await said("why", "a")).startswith("a is suspended")
        assert await said("delete", "a") == "dijob/a deleted\n"


async def _restart(testbed: Testbed, said: Callable[..., Awaitable[str]]) -> None:
    """First one task, then all of it; the others stay, and no restart is counted."""
    for words, fresh in ((["--task", "collect"], {"a-collect-0", "a-collect-1"}), ([], ALL)):
        before = await testbed.pods("a")
        await said("restart", "a", *words)

        async def has_new(before: Object = before, fresh: set[str] = fresh) -> bool:
            now = await testbed.pods("a")
            new = {n for n in now if now[n]["metadata"]["uid"] != before[n]["metadata"]["uid"]}
            return {*now} == ALL and new == fresh

        await testbed.until(has_new, f"{sorted(fresh)} to be made anew")
        await said("wait", "a", "--for", "phase=Running", "--timeout", "60")
    assert (await testbed.job("a"))["status"]["restarts"] == 0

    async def tells_of_it() -> bool:
        return "RestartRequested" in await said("events", "a")

    await testbed.until(tells_of_it, "the event, which comes after the phase")
    why = await said("why", "a")
    assert why.startswith("a runs: all 3 pods are ready")
    assert "a restart of the job was asked for, 3 pods to replace" in why


def test_what_is_refused_is_told_by_field_and_by_right(
    di: Di,
    api_server: ApiServer,
    kube_config: KubeConfig,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(yaml.safe_dump(job("a", task("learn"), priorty="high")))
    code, _, err = di("submit", str(file))
    assert (code, 'unknown field "spec.priorty"' in err) == (ExitCode.FAILED, True)

    bad = job("a", task("learn", 0))
    bad["spec"]["backoffLimit"] = -1
    file.write_text(yaml.safe_dump(bad))
    code, _, err = di("submit", str(file))
    assert code == ExitCode.FAILED
    first, *fields, remedy = err.splitlines()
    assert first.endswith(": refused, it breaks the rules")
    assert any(line.startswith("  spec.tasks[0].replicas: ") for line in fields)
    assert any(line.startswith("  spec.backoffLimit: ") for line in fields)
    assert remedy.startswith("  try: ")

    file.write_text(yaml.safe_dump(job("a", task("learn"))))
    assert di("submit", str(file))[0] == ExitCode.DONE
    code, _, err = di("submit", str(file))
    assert "there is one of that name already" in err.splitlines()[0]
    code, _, err = di("set", "a", "tasks.learn.replicas=0")
    assert (code, "spec.tasks[0].replicas" in err) == (ExitCode.FAILED, True)
    assert di("scale", "a", "0")[0] == ExitCode.FAILED
    assert di("get", "b")[0] == ExitCode.NOT_FOUND

    monkeypatch.setenv("KUBECONFIG", str(_nobody(api_server, kube_config, di, tmp_path)))
    code, _, err = di("list")
    assert code == ExitCode.NOT_ALLOWED
    assert 'cannot list resource "dijobs"' in err
    assert len(err.splitlines()) == 3


def test_a_deletion_is_waited_for_by_a_watch(di: Di, kube_config: KubeConfig) -> None:
    with SyncKubeClient(config=kube_config) as client:
        client.create(DIJOBS, job("a", task("learn")), di.namespace)
        watched = threading.Event()
        asked = SyncKubeClient.watch

        def watch(self: SyncKubeClient, *words: Any, **more: Any) -> Any:
            watched.set()
            return asked(self, *words, **more)

        def delete() -> None:
            watched.wait(60)
            client.delete(DIJOBS, "a", di.namespace)

        thread = threading.Thread(target=delete)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(SyncKubeClient, "watch", watch)
            thread.start()
            code, out, _ = di("wait", "a", "--for", "delete", "--timeout", "60")
        thread.join()
    assert (code, out) == (ExitCode.DONE, "dijob/a: delete\n")


def test_a_rollback_is_done_while_the_status_changes_and_not_after_another_change(
    di: Di, kube_config: KubeConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    def is_changed_meanwhile(change: Object, subresource: str | None) -> Callable[..., bool]:
        def answer(*_: object, **__: object) -> bool:
            kube.patch(DIJOBS, "a", change, di.namespace, subresource=subresource)
            return True

        return answer

    with SyncKubeClient(config=kube_config, timeout=60) as kube, answering() as history:
        monkeypatch.setenv("DI_HISTORY_URL", history.url)
        made = kube.create(DIJOBS, job("a", task("learn"), task("collect", 2)), di.namespace)
        earlier = {**made["spec"], "backoffLimit": 9}
        history.answers[f"/v1/jobs/{di.namespace}/a/revisions/1"] = {"spec": earlier}
        other = is_changed_meanwhile({"spec": {"suspend": True}}, None)
        monkeypatch.setattr("typer.confirm", other)
        # The kubeconfig has a certificate, so an account's token is shown to the history.
        back = ("rollback", "a", "--to", "1", "--account", "default")
        code, _, said = di(*back)
        assert code == ExitCode.FAILED
        assert said.splitlines() == [
            "error: dijob/a was changed meanwhile; nothing was rolled back",
            "  its spec has the generation 2, and had 1",
            f"  try: di -n {di.namespace} history a shows the change; then roll back again",
        ]
        report = is_changed_meanwhile({"status": {"progress": {"step": 5}}}, "status")
        monkeypatch.setattr("typer.confirm", report)
        assert di(*back)[0] == ExitCode.DONE
        found = kube.get(DIJOBS, "a", di.namespace)
        assert (found["spec"], found["status"]["progress"]) == (earlier, {"step": 5})


def test_a_login_makes_a_token_for_di_server_and_nobody_else(di: Di, tmp_path: Path) -> None:
    code, out, _ = di("login", "--server", "https://di-server:8443", "--seconds", "600")
    assert code == ExitCode.DONE, out
    (file,) = (tmp_path / "di").iterdir()
    payload = json.loads(file.read_text())["token"].split(".")[1]
    claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    assert claims["aud"] == ["di-server"]
    assert claims["exp"] - claims["iat"] == 600


def test_doctor_finds_what_is_seeded(
    di: Di,
    api_server: ApiServer,
    kube_config: KubeConfig,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with SyncKubeClient(config=kube_config) as client, _seeded(client, di.namespace):
        code, out, _ = di("doctor", "--system-namespace", di.namespace, "-o", "json")
        found = [(each["topic"], each["what"]) for each in json.loads(out)["findings"]]
        for topic, words in (
            ("installation", "0 of 1 pods of di-operator are ready"),
            ("installation", "di-server 9.9.9"),
            ("operator", "a has not renewed its Lease for"),
            ("webhook", "the API server does not reach the webhook"),
            ("certificates", "no authority is told"),
            ("server", "there is no di-server"),
            ("quota", "services 1 of 1"),
            ("metrics", "does not measure the resource use of pods"),
        ):
            assert any(topic == each and words in what for each, what in found), out
        # The administrator may do everything, and the CRD is as it has to be.
        assert {"cluster", "clocks", "rights", "definition"}.isdisjoint(each for each, _ in found)
        assert code == ExitCode.FAULTS_FOUND

        monkeypatch.setenv("KUBECONFIG", str(_nobody(api_server, kube_config, di, tmp_path)))
        code, out, _ = di("doctor", "-o", "json")
        severities = {each["severity"] for each in json.loads(out)["findings"]}
        assert (code, severities) == (ExitCode.DONE, {"unread", "warning"})
        assert "create dijobs (di submit)" in out


@contextmanager
def _seeded(client: SyncKubeClient, namespace: str) -> Iterator[None]:
    """A release in the namespace that is ill in several ways; its webhook is asked of it alone."""
    labels = {"app.kubernetes.io/name": "di-orchestrator", "app.kubernetes.io/instance": "di"}
    for component, version in (("operator", "0.1.0"), ("webhook", "0.1.0"), ("server", "9.9.9")):
        own = {"component": component, "version": version}
        own = {f"app.kubernetes.io/{key}": value for key, value in own.items()}
        container = {"name": "c", "image": "example/none"}
        deployment = {
            "metadata": {"name": f"di-{component}", "labels": {**labels, **own}},
            "spec": {
                "selector": {"matchLabels": own},
                "template": {"metadata": {"labels": own}, "spec": {"containers": [container]}},
            },
        }
        client.create(DEPLOYMENTS, deployment, namespace)
    lease = {
        "holderIdentity": "a",
        "leaseDurationSeconds": 15,
        "renewTime": "2026-01-01T00:00:00.000000Z",
    }
    client.create(LEASES, {"metadata": {"name": "di-operator"}, "spec": lease}, namespace)
    service = {"metadata": {"name": "s"}, "spec": {"clusterIP": "None"}}
    client.create(SERVICES, service, namespace)
    client.create(
        QUOTAS, {"metadata": {"name": "q"}, "spec": {"hard": {"services": "1"}}}, namespace
    )
    numbers = itertools.count()

    def is_counted() -> bool:
        # The quota's controller counts at each change of `hard`, otherwise every five minutes. A
        # count can miss a Service that its cache has not got yet, so count again until it is there.
        hard = {"services": "1", "pods": f"{next(numbers)}"}
        client.patch(QUOTAS, "q", {"spec": {"hard": hard}}, namespace)
        used = client.get(QUOTAS, "q", namespace)["status"]["used"]
        return bool(used["services"] == "1")

    wait_until(is_counted, what="the quota to be counted")
    name = f"doctor-{namespace}"
    hook = {
        "name": "validate.dijobs.diengine.opendilab.org",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Fail",
        "timeoutSeconds": 1,
        "clientConfig": {"service": {"name": "di-webhook", "namespace": namespace}},
        "rules": [
            {
                "apiGroups": [DIJOBS.group],
                "apiVersions": [DIJOBS.version],
                "resources": [DIJOBS.plural],
                "operations": ["CREATE"],
            }
        ],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
    }
    body = {"metadata": {"name": name, "labels": labels}, "webhooks": [hook]}
    client.create(VALIDATING_WEBHOOKS, body)
    try:
        wait_until(lambda: _is_asked(client, namespace), what="the API server to ask the webhook")
        yield
    finally:
        client.delete(VALIDATING_WEBHOOKS, name)


def _is_asked(client: SyncKubeClient, namespace: str) -> bool:
    try:
        client.create(DIJOBS, job("a", task("learn")), namespace, dry_run=True)
    except ApiError as error:
        return "failed calling webhook" in error.message
    return False


@contextmanager
def _program(kubeconfig: Path) -> Iterator[Callable[[Sequence[str]], str]]:
    """Runs commands in a process of its own, whose output nobody else writes to; each gives what it
    said, and has to succeed."""
    with Program(
        [sys.executable, "-c", _DRIVER],
        env={**os.environ, "KUBECONFIG": str(kubeconfig)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        commands, answers = process.stdin, process.stdout
        assert commands is not None
        assert answers is not None

        def said(words: Sequence[str]) -> str:
            commands.write(json.dumps(words) + "\n")
            commands.flush()
            code, out, err = json.loads(answers.readline())
            assert code == 0, err
            return str(out)

        yield said
        commands.close()
        assert process.wait(60) == 0


def _nobody(server: ApiServer, config: KubeConfig, di: Di, folder: Path) -> Path:
    """The kubeconfig of an account without any rights."""
    found = yaml.safe_load(server.kubeconfig.read_text())
    found["users"][0]["user"] = {"token": _token(config, di.namespace)}
    file = folder / "nobody"
    file.write_text(yaml.safe_dump(found))
    return file


def _token(config: KubeConfig, namespace: str) -> str:
    """Of an account without any rights."""
    with SyncKubeClient(config=config) as client:
        return token_of(client, namespace, "default")


def test_own_code_is_submitted_once_and_pushed_into_its_job(
    di: Di, kube_config: KubeConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    program = tmp_path / "train.py"
    program.write_text("print(1)\n")
    code, _, err = di("submit", "train.py", "--replicas", "learner=0")
    assert (code, "spec.tasks[0].replicas" in err) == (ExitCode.FAILED, True)
    assert di("submit", "train.py")[:2] == (0, "dijob/train submitted\n")
    code, _, err = di("submit", "train.py")
    assert code == ExitCode.FAILED
    assert "error: dijob/train exists already" in err
    with SyncKubeClient(config=kube_config) as kube:

        def bundles() -> dict[str, Object]:
            found, _ = kube.list(CONFIGMAPS, di.namespace, label_selector="diengine/code-of=train")
            return {each["metadata"]["name"]: each for each in found}

        made = kube.get(DIJOBS, "train", di.namespace)
        assert set(bundles()) == {made["spec"]["code"]["configMap"]}
        assert di("push", "train")[1] == "dijob/train has this code already\n"
        program.write_text("print(2)\n")
        assert di("push", "train")[1] == "dijob/train restarts with new code: train.py\n"
        pushed = kube.get(DIJOBS, "train", di.namespace)
        assert pushed["metadata"]["uid"] == made["metadata"]["uid"]
        assert pushed["spec"]["code"]["sha256"] != made["spec"]["code"]["sha256"]
        assert len(bundles()) == 2
        for each in bundles().values():
            (owner,) = each["metadata"]["ownerReferences"]
            assert owner["uid"] == made["metadata"]["uid"]
