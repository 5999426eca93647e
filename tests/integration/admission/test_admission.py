"""Jobs on their way into a real API server, past the webhook as a process behind HTTPS."""

from __future__ import annotations

import json
import socket
import ssl
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml

from di_certs.files import CA_CERTIFICATE, write_certificates
from di_kube.config import KubeConfig
from di_kube.resources import DIJOBS
from di_webhook.app import MAX_BODY_BYTES
from tests.integration.admitting import call, manifest
from tests.integration.conftest import ApiServer
from tests.integration.webhook_process import (
    MUTATING,
    VALIDATING,
    WebhookProcess,
    webhook_process,
)
from tests.unit.webhook.reviews import job, review
from tests.waiting import wait_until

pytestmark = pytest.mark.usefixtures("crd")


@pytest.fixture
def webhook(api_server: ApiServer, tmp_path: Path) -> Iterator[WebhookProcess]:
    with webhook_process(tmp_path, api_server.host_address) as running:
        yield running


class Kubectl:
    """kubectl as a user types it."""

    def __init__(self, api_server: ApiServer, namespace: str) -> None:
        self._command = [
            str(api_server.binary("kubectl")),
            f"--kubeconfig={api_server.kubeconfig}",
            f"--namespace={namespace}",
        ]

    def __call__(self, *arguments: str, stdin: object = None) -> tuple[int, str]:
        """Exit code, and standard output and error together."""
        done = subprocess.run(
            [*self._command, *arguments],
            input=yaml.safe_dump(stdin) if stdin is not None else None,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=60,
            check=False,
        )
        return done.returncode, done.stdout


@pytest.fixture
def kubectl(api_server: ApiServer, namespace: str) -> Kubectl:
    return Kubectl(api_server, namespace)


@pytest.fixture
def old_job(kube_config: KubeConfig, namespace: str) -> str:
    """A job that the webhook would refuse: its tasks wait for each other. It is older."""
    body = manifest("old")
    waits = {"type": "none", "name": "a", "dependsOn": ["learner"]}
    [learner] = body["spec"]["tasks"]
    body["spec"]["tasks"] = [learner | {"dependsOn": ["a"]}, {**learner, **waits}]
    call(kube_config, lambda client: client.create(DIJOBS, body, namespace))
    return "old"


def test_a_rule_does_not_bind_a_job_that_is_older(
    old_job: str, admission: WebhookProcess, kubectl: Kubectl
) -> None:
    assert admission.ready() == 200

    def patch(body: object, *options: str) -> tuple[int, str]:
        arguments = (f"dijob/{old_job}", "--type=json", "-p", json.dumps(body))
        return kubectl("patch", *arguments, *options)

    def add(path: str, value: object) -> list[dict[str, object]]:
        return [{"op": "add", "path": path, "value": value}]

    for path, value in (
        ("/metadata/labels", {"team": "rl"}),
        ("/metadata/finalizers", ["example.org/keep"]),
        ("/spec/suspend", True),
        ("/spec/tasks/0/replicas", 3),
    ):
        assert patch(add(path, value))[0] == 0, patch(add(path, value))
    assert patch(add("/status", {"phase": "Running"}), "--subresource=status")[0] == 0
    code, text = patch(add("/spec/tasks/0/maxReplicas", 2))
    assert code == 1
    assert "spec.tasks[0].replicas" in text
    assert "circle" not in text
    assert patch([{"op": "remove", "path": "/metadata/finalizers"}])[0] == 0


def test_a_bare_job_is_stored_with_its_defaults(
    admission: WebhookProcess, kubectl: Kubectl
) -> None:
    assert kubectl("apply", "-f-", stdin=manifest())[0] == 0
    code, text = kubectl("get", "dijob", "cartpole", "-ojson")
    assert code == 0
    spec = json.loads(text)["spec"]
    assert spec["priority"] == "normal"
    assert spec["backoffLimit"] == 3
    # No default of the CRD can say this one: it depends on another field.
    assert spec["tasks"][0]["name"] == "learner"
    assert spec["tasks"][0]["replicas"] == 1


def test_applying_the_same_manifest_again_changes_nothing(
    admission: WebhookProcess, kubectl: Kubectl
) -> None:
    kubectl("apply", "-f-", stdin=manifest())
    code, text = kubectl("apply", "-f-", stdin=manifest())
    assert code == 0, text
    _, text = kubectl("get", "dijob", "cartpole", "-ojsonpath={.metadata.generation}")
    assert text == "1"


def test_a_bad_job_is_refused_with_every_error_and_its_path(
    admission: WebhookProcess, kubectl: Kubectl
) -> None:
    # Each of these passes the schema, so that the webhook is what refuses them.
    bad = manifest(name="j" * 60)
    bad["spec"]["tasks"][0]["dependsOn"] = ["nobody"]
    code, text = kubectl("create", "-f-", stdin=bad)
    assert code != 0
    assert "spec.tasks[0].dependsOn" in text
    assert "metadata.name" in text
    assert kubectl("get", "dijobs", "-oname") == (0, "")


def test_a_living_job_may_be_scaled_but_not_rewritten(
    admission: WebhookProcess, kubectl: Kubectl
) -> None:
    kubectl("create", "-f-", stdin=manifest())
    scale = [{"op": "replace", "path": "/spec/tasks/0/replicas", "value": 2}]
    image = "/spec/tasks/0/template/spec/containers/0/image"
    rewrite = [{"op": "replace", "path": image, "value": "other"}]
    patch = ("patch", "dijob", "cartpole", "--type=json", "-p")
    code, text = kubectl(*patch, json.dumps(scale))
    assert code == 0, text
    code, text = kubectl(*patch, json.dumps(rewrite))
    assert code != 0
    path = "spec.tasks[0].template.spec.containers[0].image"
    why = (
        "may not change while the job exists; delete it and create it again, or suspend it first: "
        "it has not started"
    )
    assert f'{path}: "other": {why} (task "learner")' in text


@pytest.mark.proves("security.md#admission", "operations.md#availability/all-of-the-webhook")
def test_without_the_webhook_creates_fail_fast_and_the_rest_goes_on(
    admission: WebhookProcess, kubectl: Kubectl
) -> None:
    kubectl("create", "-f-", stdin=manifest())
    assert admission.terminate() == 0
    code, text = kubectl("create", "-f-", stdin=manifest(name="second"))
    assert code != 0
    assert VALIDATING in text
    # The mutating one comes first and is passed over.
    assert MUTATING not in text
    status = json.dumps({"status": {"phase": "Pending"}})
    code, text = kubectl(
        "patch", "dijob", "cartpole", "--subresource=status", "--type=merge", "-p", status
    )
    assert code == 0, text
    code, text = kubectl("delete", "dijob", "cartpole")
    assert code == 0, text


MIB = 1024 * 1024
MALFORMED = {
    "empty": b"",
    "not JSON": b"hello",
    "deep": b"[" * 100_000,
    "NaN": b'{"request": NaN}',
    "no uid": b'{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {}}',
    "v1beta1": review(job()).replace(b"k8s.io/v1", b"k8s.io/v1beta1"),
    "bytes": bytes(range(256)),
}


@pytest.mark.proves("security.md#what-a-review-may-cost/3-25-mib")
def test_malformed_reviews_get_400_and_leave_no_traceback(webhook: WebhookProcess) -> None:
    for name, body in MALFORMED.items():
        for path in ("/mutate", "/validate", "/convert"):
            status, answer = webhook.post(path, body)
            assert status == 400, name
            assert answer
    # The first that is too large, and one that fills every buffer on the way: its sender still
    # writes while it is refused, and is to read the refusal all the same.
    for size in (MAX_BODY_BYTES + 1, 12 * MIB):
        assert webhook.post("/validate", b" " * size)[0] == 413
    assert "Traceback" not in webhook.log.read_text()
    assert webhook.log_lines()


def connect(webhook: WebhookProcess) -> ssl.SSLSocket:
    context = ssl.create_default_context(cafile=webhook.certificates / CA_CERTIFICATE)
    plain = socket.create_connection((webhook.host, webhook.port), timeout=60)
    return context.wrap_socket(plain, server_hostname=webhook.host)


def is_open(sock: ssl.SSLSocket) -> bool:
    """Whether the webhook has neither answered nor closed the connection."""
    sock.settimeout(0)
    try:
        sock.recv(1)
    except ssl.SSLWantReadError:
        return True
    except (ssl.SSLEOFError, ConnectionError):
        return False
    return False


def test_a_review_under_way_at_sigterm_is_answered(webhook: WebhookProcess) -> None:
    body = review(job())
    with connect(webhook) as connection:
        head = f"POST /validate HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
        connection.sendall(head.encode() + body[:100])
        # Answered after the first half was sent, on another connection: the first one is
        # accepted by now.
        assert webhook.post("/validate", body)[0] == 200
        webhook.process.terminate()
        wait_until(
            lambda: any("term" in line["event"].lower() for line in webhook.log_lines()),
            what="SIGTERM to arrive",
        )
        connection.sendall(body[100:])
        answer = b""
        while chunk := connection.recv(4096):
            answer += chunk
    assert answer.startswith(b"HTTP/1.1 200")
    assert b'"allowed": true' in answer
    assert webhook.process.wait(timeout=60) == 0


def test_without_a_certificate_it_waits_for_one(api_server: ApiServer, tmp_path: Path) -> None:
    with webhook_process(tmp_path, api_server.host_address, with_certificate=False) as webhook:
        now = datetime.now(UTC)
        write_certificates(
            webhook.certificates, [webhook.host], now=now, lifetime=timedelta(days=1)
        )
        wait_until(lambda: webhook.ready() == 200, what="readiness")
        assert webhook.post("/validate", review(job()))[0] == 200
        # Junk is not taken, what is served stays; the next good pair is.
        certificate = webhook.certificates / "tls.crt"
        good = certificate.read_bytes()
        certificate.write_bytes(b"junk")
        assert webhook.post("/validate", review(job()))[0] == 200
        certificate.write_bytes(good)
        write_certificates(
            webhook.certificates, [webhook.host], now=now, lifetime=timedelta(days=2), force=True
        )
        # The new CA is what this client trusts: only the new certificate can answer.
        assert webhook.post("/validate", review(job()))[0] == 200
        events = [line["event"] for line in webhook.log_lines()]
        assert "serving certificate not usable" in events


@pytest.mark.usefixtures("admission", "job_templates")
def test_a_template_with_a_wrong_pod_is_refused_when_it_is_made(
    api_server: ApiServer, namespace: str
) -> None:
    kubectl = Kubectl(api_server, namespace)

    def template(field: str) -> object:
        return {
            "apiVersion": "diengine.opendilab.org/v2alpha1",
            "kind": "DIJobTemplate",
            "metadata": {"name": "gpu"},
            "spec": {"job": {"template": {"spec": {field: []}}}},
        }

    code, said = kubectl("create", "-f", "-", stdin=template("tolerration"))
    assert code == 1
    assert "spec.job.template.spec.tolerration" in said
    assert "did you mean tolerations?" in said
    assert kubectl("create", "-f", "-", stdin=template("tolerations"))[0] == 0
