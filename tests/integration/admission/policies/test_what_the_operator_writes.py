"""What the API server refuses the operator although its role would allow it."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from di_api.crd.conversion import with_conversion
from di_api.names import GROUP
from di_certs.authority import Authority
from di_kube.config import KubeConfig
from di_kube.resources import (
    AGGREGATOR_CONFIGS,
    CONFIGMAPS,
    CRDS,
    DIJOBS,
    LEASES,
    PODS,
    SECRETS,
    SERVICES,
    Resource,
)
from di_kube.sync import SyncKubeClient
from tests.integration.accounts import OPERATOR, Accounts
from tests.integration.admission.policies.objects import (
    CLAIMS,
    MADE,
    NOT_OURS,
    OBJECTS,
    OTHER_OWNER,
    OWNED,
    TEMPLATE,
    UNOWNED,
    named,
)
from tests.integration.conftest import definition, fresh_namespace, withdraw_conversion

Object = dict[str, Any]

ADMISSION = "di-webhook-admission"
CA_BUNDLE = base64.b64encode(
    Authority.create("test", now=datetime.now(UTC), lifetime=timedelta(days=1)).certificate_pem
).decode()

CREATED = {
    "of a job": (OWNED, ""),
    "of a job in an older version": (
        {**OWNED, "ownerReferences": [OTHER_OWNER | {"apiVersion": f"{GROUP}/x", "kind": "DIJob"}]},
        "",
    ),
    "of nobody": ({"labels": OWNED["labels"]}, UNOWNED),
    "of a ConfigMap": ({**OWNED, "ownerReferences": [OTHER_OWNER]}, UNOWNED),
    "of a job that does not control it": (
        {**OWNED, "ownerReferences": [{**OWNED["ownerReferences"][0], "controller": False}]},
        UNOWNED,
    ),
    "without the label": ({**OWNED, "labels": {"a": "b"}}, "diengine/operator=di-operator"),
    "without labels": ({**OWNED, "labels": {}}, "diengine/operator=di-operator"),
}


@pytest.mark.proves("security.md#what-an-account-writes/operator")
@pytest.mark.parametrize("resource", MADE, ids=lambda r: r.plural)
@pytest.mark.parametrize(("metadata", "message"), CREATED.values(), ids=CREATED)
def test_the_operator_makes_only_objects_of_jobs(
    accounts: Accounts, resource: Resource, metadata: Object, message: str
) -> None:
    path = resource.path(accounts.namespace)
    body = named("new", metadata) | MADE[resource]
    why = accounts.objection(OPERATOR, "POST", path, body)
    assert (message in why) if message else why == ""


@pytest.mark.proves("security.md#what-an-account-writes/operator")
@pytest.mark.parametrize("resource", OBJECTS, ids=lambda r: r.plural)
@pytest.mark.parametrize(
    ("name", "message"), {"owned": "", "bare": "", "foreign": NOT_OURS}.items(), ids=str
)
def test_the_operator_deletes_only_objects_of_jobs(
    accounts: Accounts, resource: Resource, name: str, message: str
) -> None:
    path = resource.path(accounts.namespace, name)
    why = accounts.objection(OPERATOR, "DELETE", path)
    assert (message in why) if message else why == ""


@pytest.mark.parametrize(("method", "verb"), [("DELETE", "delete"), ("PATCH", "patch")])
def test_what_jobs_bring_along_the_operator_neither_changes_nor_deletes(
    accounts: Accounts, method: str, verb: str
) -> None:
    path = CLAIMS.path(accounts.namespace, "any")
    assert f"cannot {verb} resource" in accounts.objection(OPERATOR, method, path, {})


def test_the_operator_takes_nobodys_objects_and_lets_none_go(
    accounts: Accounts, kube_config: KubeConfig
) -> None:
    def replace(name: str, **metadata: object) -> str:
        path = CONFIGMAPS.path(accounts.namespace, name)
        with SyncKubeClient(config=kube_config) as kube:
            body = kube.get(CONFIGMAPS, name, accounts.namespace)
        body["data"] = {"a": "c"}
        body["metadata"] |= metadata
        return accounts.objection(OPERATOR, "PUT", path, body)

    assert replace("owned") == ""
    # A label is put back, but only on what a job controls.
    assert replace("bare", labels=OWNED["labels"]) == ""
    assert NOT_OURS in replace("foreign", ownerReferences=OWNED["ownerReferences"])
    assert UNOWNED in replace("owned", ownerReferences=[])


@pytest.mark.proves("security.md#what-an-account-writes/operator")
@pytest.mark.parametrize(
    ("resource", "spec"),
    [(PODS, {"activeDeadlineSeconds": 1}), (SERVICES, {"externalIPs": ["192.0.2.1"]})],
    ids=lambda value: value.plural if isinstance(value, Resource) else "",
)
def test_the_operator_changes_labels_of_pods_and_services_and_nothing_else(
    accounts: Accounts, resource: Resource, spec: Object
) -> None:
    path = resource.path(accounts.namespace, "bare")
    labelled = {"metadata": {"labels": OWNED["labels"]}}
    assert accounts.objection(OPERATOR, "PATCH", path, labelled) == ""
    why = accounts.objection(OPERATOR, "PATCH", path, labelled | {"spec": spec})
    assert "only the metadata of pods and Services" in why


@pytest.mark.proves("security.md#what-an-account-writes/operator")
def test_the_operator_puts_selector_and_ports_of_a_service_right(accounts: Accounts) -> None:
    path = SERVICES.path(accounts.namespace, "bare")
    ports = [{"name": "a", "port": 1234}]
    spec = {"selector": {"a": "b"}, "ports": ports, "publishNotReadyAddresses": True}
    body = {"metadata": {"labels": OWNED["labels"]}, "spec": spec}
    assert accounts.objection(OPERATOR, "PATCH", path, body) == ""


@pytest.mark.parametrize("name", ["working", "coordinated", "finished", "expired"])
def test_the_operator_deletes_only_jobs_that_are_to_go_by_themselves(
    accounts: Accounts, name: str
) -> None:
    why = accounts.objection(OPERATOR, "DELETE", DIJOBS.path(accounts.namespace, name))
    assert (why == "") == (name == "expired")
    assert name == "expired" or "spec.ttlSecondsAfterFinished" in why


@pytest.mark.parametrize(
    ("resource", "names"),
    [
        (SECRETS, ("di-webhook-tls", "di-server-tls", "di-webhook-tls-ca")),
        (LEASES, ("di-operator", "di-operator-scope")),
        (AGGREGATOR_CONFIGS, ("aggregator-config",)),
    ],
    ids=lambda r: r.plural if isinstance(r, Resource) else "",
)
def test_the_operator_makes_in_its_own_namespace_what_it_knows_by_name(
    accounts: Accounts, resource: Resource, names: tuple[str, ...]
) -> None:
    def create(name: str) -> str:
        body = named(name, {}) | {"apiVersion": resource.api_version, "kind": resource.kind}
        if resource is AGGREGATOR_CONFIGS:
            body["spec"] = {"aggregator": {"template": TEMPLATE}}
        return accounts.objection(OPERATOR, "POST", resource.path(accounts.namespace), body)

    assert [create(name) for name in names] == [""] * len(names)
    assert f"may not create {resource.plural} named other" in create("other")


def test_the_operator_writes_only_data_of_the_admission_config_map(
    accounts: Accounts, kube_config: KubeConfig
) -> None:
    written = {"data": {"ca.crt": "pem"}}

    def patch(name: str, body: Object) -> str:
        path = CONFIGMAPS.path(accounts.namespace, name)
        return accounts.objection(OPERATOR, "PATCH", path, body)

    rendered = accounts.rendered.one("ConfigMap", ADMISSION)
    with SyncKubeClient(config=kube_config) as kube:
        kube.create(CONFIGMAPS, dict(rendered), accounts.namespace)
    assert patch(ADMISSION, written) == ""
    assert NOT_OURS in patch("foreign", written)
    only = "may change only the data"
    for more in (
        {"metadata": {"labels": {"a": "b"}}},
        {"metadata": {"annotations": {"a": "b"}}},
        {"metadata": {"ownerReferences": OWNED["ownerReferences"]}},
        {"binaryData": {"a": "YQ=="}},
        {"immutable": True},
    ):
        assert only in patch(ADMISSION, written | more)
    path = CONFIGMAPS.path(accounts.namespace, ADMISSION)
    assert NOT_OURS in accounts.objection(OPERATOR, "DELETE", path)
    # By the same name elsewhere.
    with fresh_namespace(kube_config) as other:
        with SyncKubeClient(config=kube_config) as kube:
            kube.create(CONFIGMAPS, named(ADMISSION, {}), other)
        path = CONFIGMAPS.path(other, ADMISSION)
        assert NOT_OURS in accounts.objection(OPERATOR, "PATCH", path, written)


def test_the_operator_changes_nothing_of_the_definition_but_whom_to_trust(
    accounts: Accounts, kube_config: KubeConfig, crd: str
) -> None:
    def patch(body: Object) -> str:
        return accounts.objection(OPERATOR, "PATCH", CRDS.path(None, crd), body)

    def conversion(**client: object) -> Object:
        return {"spec": {"conversion": {"webhook": {"clientConfig": client}}}}

    only = "may change only spec.conversion.webhook.clientConfig.caBundle"
    with converted(kube_config, crd):
        assert patch(conversion(caBundle=CA_BUNDLE)) == ""
        # Few, since the API server takes a second to judge each.
        assert only in patch(conversion(service={"path": "/other"}))
        assert only in patch({"spec": {"names": {"shortNames": ["other"]}}})
        assert "may not change the metadata" in patch({"metadata": {"labels": {"a": "b"}}})


@contextmanager
def converted(config: KubeConfig, crd: str) -> Iterator[None]:
    """The definition names a webhook. It is not asked: the older versions are not served."""
    service = {"namespace": "di-system", "name": "di-webhook", "path": "/convert"}
    conversion = with_conversion(definition(), {"service": service})["spec"]["conversion"]
    with SyncKubeClient(config=config) as kube:
        kube.patch(CRDS, crd, {"spec": {"conversion": conversion}})
    try:
        yield
    finally:
        asyncio.run(withdraw_conversion(config))
