"""Where an authority and the rules are published, and where they are left alone."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from di_api.admission_rules import ADMISSION_RULES
from di_kube.resources import CRDS, MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS
from di_operator.certificates.ca_bundles import (
    admission_patch,
    bundles,
    have_rules,
    is_registered,
    names_of,
)
from di_operator.certificates.rotation import CertificateSettings, Leaf

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
def test_the_conversion_gets_the_authority(client: dict[str, Any]) -> None:
    body = definition(**client)
    [(key, value)] = client.items()
    path = "/spec/conversion/webhook/clientConfig"
    assert bundles([(CRDS, body)], SETTINGS) == (b"",)
    assert admission_patch(CRDS, body, b"pem", SETTINGS) == [
        {"op": "test", "path": f"{path}/{key}", "value": value},
        {"op": "add", "path": f"{path}/caBundle", "value": BUNDLE},
    ]
    published = definition(**client, caBundle=BUNDLE)
    assert bundles([(CRDS, published)], SETTINGS) == (b"pem",)
    assert admission_patch(CRDS, published, b"pem", SETTINGS) == []


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
def test_another_webhooks_conversion_is_not_changed(body: dict[str, Any]) -> None:
    assert bundles([(CRDS, body)], SETTINGS) == ()
    assert admission_patch(CRDS, body, b"pem", SETTINGS) == []


def test_only_the_webhooks_that_differ_are_patched() -> None:
    body = {
        "webhooks": [
            {"name": "a", "clientConfig": {"caBundle": BUNDLE}, "rules": ADMISSION_RULES},
            {"name": "b", "clientConfig": {"caBundle": "?"}, "rules": ADMISSION_RULES},
        ]
    }
    assert bundles([(MUTATING_WEBHOOKS, body)], SETTINGS) == (b"pem", b"")
    assert admission_patch(MUTATING_WEBHOOKS, body, b"pem", SETTINGS) == [
        {"op": "test", "path": "/webhooks/1/name", "value": "b"},
        {"op": "add", "path": "/webhooks/1/clientConfig/caBundle", "value": BUNDLE},
    ]


def configuration(*webhooks: dict[str, Any]) -> dict[str, Any]:
    return {"webhooks": [*webhooks]}


def test_bundle_and_rules_are_published_in_one_patch() -> None:
    body = configuration({"name": "a", "clientConfig": {}})
    assert not have_rules([(MUTATING_WEBHOOKS, body)], SETTINGS)
    assert admission_patch(MUTATING_WEBHOOKS, body, b"pem", SETTINGS) == [
        {"op": "test", "path": "/webhooks/0/name", "value": "a"},
        {"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": BUNDLE},
        {"op": "add", "path": "/webhooks/0/rules", "value": ADMISSION_RULES},
    ]


@pytest.mark.parametrize(
    "rules",
    [None, [], [{**ADMISSION_RULES[0], "operations": ["CREATE"]}], ADMISSION_RULES * 2],
    ids=["absent", "empty", "narrower", "twice"],
)
def test_different_rules_are_replaced_and_the_bundle_kept(rules: object) -> None:
    body = configuration({"name": "a", "clientConfig": {"caBundle": BUNDLE}, "rules": rules})
    assert not have_rules([(VALIDATING_WEBHOOKS, body)], SETTINGS)
    assert admission_patch(VALIDATING_WEBHOOKS, body, b"pem", SETTINGS) == [
        {"op": "test", "path": "/webhooks/0/name", "value": "a"},
        {"op": "add", "path": "/webhooks/0/rules", "value": ADMISSION_RULES},
    ]


def test_published_rules_are_kept_and_a_conversion_needs_none() -> None:
    published = {"caBundle": BUNDLE}
    body = configuration({"name": "a", "clientConfig": published, "rules": ADMISSION_RULES})
    converter = definition(service=SERVICE, **published)
    assert have_rules([(MUTATING_WEBHOOKS, body), (CRDS, converter)], SETTINGS)
    assert admission_patch(MUTATING_WEBHOOKS, body, b"pem", SETTINGS) == []


def test_a_webhook_is_registered_once_both_configurations_name_it() -> None:
    named = configuration({"name": "a"})
    mutating, validating = (MUTATING_WEBHOOKS, named), (VALIDATING_WEBHOOKS, named)
    assert is_registered([mutating, validating])
    assert not is_registered([mutating, (CRDS, definition(service=SERVICE))])
    assert not is_registered([mutating, (VALIDATING_WEBHOOKS, configuration())])


def test_the_definition_has_its_own_name() -> None:
    assert names_of(SETTINGS)[MUTATING_WEBHOOKS] == "di"
    assert names_of(SETTINGS)[CRDS] == "dijobs.diengine.opendilab.org"
