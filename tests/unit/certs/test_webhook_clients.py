"""Where an authority is published, and where it is left alone."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from di_api.kube.resources import CRDS, MUTATING_WEBHOOKS
from di_operator.certificate_plan import CertificateSettings, Leaf
from di_operator.webhook_clients import bundle_patch, bundles, names_of

SETTINGS = CertificateSettings(
    namespace="di-system",
    authority_secret="tls-ca",
    leaves=(Leaf(secret="tls", service="di-webhook", extra_hosts=("10.0.0.1",)),),
    configuration="di",
)
SERVICE = {"namespace": "di-system", "name": "di-webhook", "path": "/convert", "port": 443}
BUNDLE = base64.b64encode(b"pem").decode()


def definition(**client: Any) -> dict[str, Any]:
    conversion = {"strategy": "Webhook", "webhook": {"clientConfig": client}}
    return {"spec": {"conversion": conversion}}


@pytest.mark.parametrize(
    "client", [{"service": SERVICE}, {"url": "https://10.0.0.1:8443/convert"}], ids=["in", "out"]
)
def test_the_conversion_by_this_webhook_trusts_its_authority(client: dict[str, Any]) -> None:
    body = definition(**client)
    [(key, value)] = client.items()
    path = "/spec/conversion/webhook/clientConfig"
    assert bundles([(CRDS, body)], SETTINGS) == (b"",)
    assert bundle_patch(CRDS, body, b"pem", SETTINGS) == [
        {"op": "test", "path": f"{path}/{key}", "value": value},
        {"op": "add", "path": f"{path}/caBundle", "value": BUNDLE},
    ]
    published = definition(**client, caBundle=BUNDLE)
    assert bundles([(CRDS, published)], SETTINGS) == (b"pem",)
    assert bundle_patch(CRDS, published, b"pem", SETTINGS) == []


@pytest.mark.parametrize(
    "body",
    [
        {"spec": {}},
        {"spec": {"conversion": {"strategy": "None"}}},
        definition(service={**SERVICE, "namespace": "other"}),
        definition(service={**SERVICE, "name": "other"}),
        definition(url="https://10.0.0.2:8443/convert"),
    ],
    ids=["absent", "none", "another namespace", "another service", "another host"],
)
def test_a_conversion_by_nobody_or_by_others_is_left_alone(body: dict[str, Any]) -> None:
    assert bundles([(CRDS, body)], SETTINGS) == ()
    assert bundle_patch(CRDS, body, b"pem", SETTINGS) == []


def test_only_the_webhooks_that_differ_are_patched() -> None:
    body = {
        "webhooks": [
            {"name": "a", "clientConfig": {"caBundle": BUNDLE}},
            {"name": "b", "clientConfig": {"caBundle": "?"}},
        ]
    }
    assert bundles([(MUTATING_WEBHOOKS, body)], SETTINGS) == (b"pem", b"")
    assert bundle_patch(MUTATING_WEBHOOKS, body, b"pem", SETTINGS) == [
        {"op": "test", "path": "/webhooks/1/name", "value": "b"},
        {"op": "add", "path": "/webhooks/1/clientConfig/caBundle", "value": BUNDLE},
    ]


def test_the_definition_has_its_own_name() -> None:
    assert names_of(SETTINGS)[MUTATING_WEBHOOKS] == "di"
    assert names_of(SETTINGS)[CRDS] == "dijobs.diengine.opendilab.org"
