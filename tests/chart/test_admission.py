"""The webhook configurations: what is asked, and which fields are somebody else's."""

from __future__ import annotations

import base64

import pytest

from tests.chart.chart import Chart, Object

KINDS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")


def webhook(chart: Chart, kind: str, *values: str) -> Object:
    (found,) = chart.render(*values).one(kind, "di-di-orchestrator")["webhooks"]
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_only_creates_and_updates_of_jobs_are_asked_about(chart: Chart, kind: str) -> None:
    assert webhook(chart, kind)["rules"] == [
        {
            "apiGroups": ["diengine.opendilab.org"],
            "apiVersions": ["v2alpha1"],
            "resources": ["dijobs"],
            "operations": ["CREATE", "UPDATE"],
            "scope": "Namespaced",
        }
    ]


@pytest.mark.parametrize(
    ("kind", "policy", "path"),
    [(KINDS[0], "Ignore", "/mutate"), (KINDS[1], "Fail", "/validate")],
    ids=["a default may be missing", "an unchecked job may not pass"],
)
def test_without_the_webhook(chart: Chart, kind: str, policy: str, path: str) -> None:
    found = webhook(chart, kind)
    assert found["failurePolicy"] == policy
    assert found["timeoutSeconds"] == 5
    assert found["sideEffects"] == "None"
    service = chart.render().one("Service", "di-webhook")
    assert found["clientConfig"]["service"] == {
        "name": "di-webhook",
        "namespace": service["metadata"]["namespace"],
        "path": path,
        "port": service["spec"]["ports"][0]["port"],
    }


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mode", ["auto", "cert-manager"])
def test_the_authority_belongs_to_who_makes_it(chart: Chart, kind: str, mode: str) -> None:
    found = webhook(chart, kind, f"certificates.mode={mode}", "certificates.caBundle=")
    assert "caBundle" not in found["clientConfig"]


@pytest.mark.parametrize("kind", KINDS)
def test_an_authority_of_your_own_is_published(chart: Chart, kind: str) -> None:
    pem = "-----BEGIN CERTIFICATE-----"
    found = webhook(chart, kind, "certificates.mode=existingSecret", f"certificates.caBundle={pem}")
    assert base64.b64decode(found["clientConfig"]["caBundle"]).decode() == pem


def test_cert_manager_makes_and_publishes(chart: Chart) -> None:
    rendered = chart.render("certificates.mode=cert-manager", "certificates.secretName=tls")
    certificate = rendered.one("Certificate", "di-webhook")["spec"]
    assert certificate["secretName"] == "tls"
    assert "di-webhook.di-system.svc" in certificate["dnsNames"]
    assert certificate["issuerRef"]["name"] in rendered.of_kind("Issuer")
    for kind in KINDS:
        annotations = rendered.one(kind, "di-di-orchestrator")["metadata"]["annotations"]
        assert annotations == {"cert-manager.io/inject-ca-from": "di-system/di-webhook"}


def test_an_issuer_of_your_own_is_used(chart: Chart) -> None:
    rendered = chart.render(
        "certificates.mode=cert-manager",
        "certificates.issuer.name=corporate",
        "certificates.issuer.kind=ClusterIssuer",
    )
    assert not rendered.of_kind("Issuer")
    issuer = rendered.one("Certificate", "di-webhook")["spec"]["issuerRef"]
    assert (issuer["kind"], issuer["name"]) == ("ClusterIssuer", "corporate")


@pytest.mark.parametrize("kind", KINDS)
def test_one_namespace_alone_is_asked_about(chart: Chart, kind: str) -> None:
    assert "namespaceSelector" not in webhook(chart, kind)
    found = webhook(chart, kind, "watchNamespace=team", "rbac.allowClusterRoles=true")
    assert found["namespaceSelector"] == {"matchLabels": {"kubernetes.io/metadata.name": "team"}}
