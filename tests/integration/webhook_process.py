"""The webhook as a process of its own on this machine, called by URL."""

from __future__ import annotations

import base64
import json
import signal
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http.client import HTTPException
from pathlib import Path
from typing import Any

from di_api.admission_rules import ADMISSION_RULES, MATCH_CONDITIONS
from di_certs.files import CA_CERTIFICATE, write_certificates
from tests.integration.service_process import ServiceProcess, started
from tests.ports import held_ports
from tests.waiting import START_SECONDS, wait_until

MUTATING = "default.dijobs.diengine.opendilab.org"
VALIDATING = "validate.dijobs.diengine.opendilab.org"


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookProcess(ServiceProcess):
    """A running `di-webhook` with its folder of certificates."""

    host: str
    port: int
    certificates: Path

    @property
    def url(self) -> str:
        return f"https://{self.host}:{self.port}"

    @property
    def ca_certificate(self) -> bytes:
        return (self.certificates / CA_CERTIFICATE).read_bytes()

    def log_lines(self) -> list[dict[str, Any]]:
        """Its log so far; fails if a line is not one JSON object."""
        return [json.loads(line) for line in self.log.read_text().splitlines()]

    def post(self, path: str, body: bytes) -> tuple[int, dict[str, Any]]:
        """Status and decoded body of an answer."""
        context = ssl.create_default_context(cafile=self.certificates / CA_CERTIFICATE)
        request = urllib.request.Request(self.url + path, data=body, method="POST")
        try:
            with urllib.request.urlopen(request, timeout=60, context=context) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)

    def ready(self) -> int:
        """Status of /readyz on the plain port, 0 while nothing listens."""
        try:
            with urllib.request.urlopen(f"{self.health}/readyz", timeout=60) as answer:
                status: int = answer.status
                return status
        except urllib.error.HTTPError as error:
            with error:
                return error.code
        except (OSError, HTTPException):
            return 0


@contextmanager
def webhook_process(
    folder: Path,
    host: str,
    *,
    with_certificate: bool = True,
    log_level: str = "info",
    port: int | None = None,
    environment: Mapping[str, str] = {},
) -> Iterator[WebhookProcess]:
    """Run the webhook on `host` until the block ends; ready when it begins.

    With the folder and the port of one that has ended it takes that one's place. `environment`
    has further variables.
    """
    certificates = folder / "certs"
    certificates.mkdir(parents=True, exist_ok=True)
    if with_certificate:
        write_certificates(certificates, [host], now=datetime.now(UTC), lifetime=timedelta(days=1))
    with held_ports(2) as (own, health_port):
        port = own if port is None else port
        log = folder / "webhook.log"
        given = {
            **environment,
            "DI_WEBHOOK_BIND": f"{host}:{port}",
            "DI_WEBHOOK_HEALTH_BIND": f"{host}:{health_port}",
            "DI_WEBHOOK_CERT_DIR": str(certificates),
            "DI_WEBHOOK_LOG_LEVEL": log_level,
        }
        expected = 200 if (certificates / "tls.crt").exists() else 503
        with started("webhook", log, given, end=signal.SIGKILL) as process:
            webhook = WebhookProcess(
                process=process,
                health=f"http://{host}:{health_port}",
                log=log,
                host=host,
                port=port,
                certificates=certificates,
            )
            wait_until(
                lambda: process.poll() is not None or webhook.ready() == expected,
                START_SECONDS,
                what="the webhook to answer probes",
            )
            assert process.poll() is None, log.read_text()
            yield webhook


def client_config(
    webhook: WebhookProcess, path: str, *, ca_bundle: bytes | None = None
) -> dict[str, Any]:
    """How the API server calls the webhook, trusting its authority unless another is given."""
    bundle = webhook.ca_certificate if ca_bundle is None else ca_bundle
    client: dict[str, Any] = {"url": webhook.url + path}
    if bundle:
        client["caBundle"] = base64.b64encode(bundle).decode()
    return client


def configurations(
    webhook: WebhookProcess, name: str, namespace: str, *, ca_bundle: bytes | None = None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The mutating and the validating configuration, for jobs of one namespace."""
    return configurations_calling(
        lambda path: client_config(webhook, path, ca_bundle=ca_bundle), name, namespace
    )


def as_rendered(body: dict[str, Any]) -> dict[str, Any]:
    """A configuration as the chart renders it in mode auto: the operator publishes the rules."""
    webhooks = [{**webhook} for webhook in body["webhooks"]]
    for webhook in webhooks:
        del webhook["rules"]
    return {**body, "webhooks": webhooks}


def configurations_calling(
    client: Callable[[str], dict[str, Any]], name: str, namespace: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The same; `client` says how a path of the webhook is called."""

    def entry(kind: str, path: str, failure_policy: str) -> dict[str, Any]:
        return {
            "name": kind,
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "timeoutSeconds": 5,
            "failurePolicy": failure_policy,
            "clientConfig": client(path),
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
            "rules": ADMISSION_RULES,
            "matchConditions": MATCH_CONDITIONS,
        }

    def configuration(kind: str, webhooks: list[dict[str, Any]]) -> dict[str, Any]:
        return {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": kind,
            "metadata": {"name": name},
            "webhooks": webhooks,
        }

    return (
        configuration("MutatingWebhookConfiguration", [entry(MUTATING, "/mutate", "Ignore")]),
        configuration("ValidatingWebhookConfiguration", [entry(VALIDATING, "/validate", "Fail")]),
    )
