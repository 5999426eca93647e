"""What the API server refuses the services' accounts although their roles would allow it."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from di_api.crd.conversion import with_conversion
from di_api.names import (
    ANNOTATION_IDEMPOTENCY,
    ANNOTATION_SCALED,
    ANNOTATION_SUSPENDED_BY,
    API_VERSION,
    GROUP,
)
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
from di_operator.builders.metadata import job_labels, owner_reference
from tests.integration.accounts import OPERATOR, SERVER, Accounts, installed_accounts
from tests.integration.conftest import (
    ApiServer,
    definition,
    fresh_namespace,
    install_crd,
    withdraw_conversion,
)
from tests.waiting import wait_until

Object = dict[str, Any]

ADMISSION = "di-webhook-admission"
CA_BUNDLE = base64.b64encode(
    Authority.create("test", now=datetime.now(UTC), lifetime=timedelta(days=1)).certificate_pem
).decode()
TEMPLATE = {"spec": {"containers": [{"name": "di-container", "image": "none"}]}}
ROLES = {role: {"template": TEMPLATE} for role in ("coordinator", "collector")}


def job(name: str, spec: Object) -> Object:
    # With what people and other controllers write into metadata.
    metadata = {"name": name, "labels": {"team": "rl"}, "annotations": {"note": "mine"}}
    return {"apiVersion": API_VERSION, "kind": "DIJob", "metadata": metadata, "spec": spec}


# Nameless, as the CRD takes it while the webhook is away.
WORKING = job(
    "working",
    {
        "volumes": [{"name": "data", "emptyDir": {}}],
        "tasks": [
            {"type": "learner", "template": TEMPLATE},
            {"type": "none", "name": "buffer", "replicas": 2, "template": TEMPLATE},
        ],
    },
)
COORDINATED = job("coordinated", {"coordinated": ROLES})
FINISHED = job("finished", {"tasks": [{"type": "learner", "template": TEMPLATE}]})
EXPIRED = job("expired", {**FINISHED["spec"], "ttlSecondsAfterFinished": 0})


@pytest.fixture(scope="module")
def accounts(
    api_server: ApiServer,
    kube_config: KubeConfig,
    crd: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Accounts]:
    asyncio.run(install_crd(kube_config, definition("aggregatorconfigs-crd")))
    with fresh_namespace(kube_config) as namespace:
        folder = tmp_path_factory.mktemp("accounts")
        with installed_accounts(api_server, namespace, folder) as accounts:
            _fill(kube_config, namespace)
            yield accounts


def _fill(config: KubeConfig, namespace: str) -> None:
    """Jobs in several states, an object of each kind that belongs to one, and one that does not."""
    with SyncKubeClient(config=config) as kube:
        for body in (WORKING, COORDINATED, FINISHED, EXPIRED):
            made = kube.create(DIJOBS, body, namespace)
            phase = "Running" if body in (WORKING, COORDINATED) else "Succeeded"
            status = {"status": {"phase": phase, "restarts": 1, "profilings": {"a": 1}}}
            name = body["metadata"]["name"]
            kube.patch(DIJOBS, name, status, namespace, subresource="status")
            if body is WORKING:
                owned = owned_by(made)
        for resource, spec in OBJECTS.items():
            kube.create(resource, named("owned", owned) | spec, namespace)
            kube.create(resource, named("foreign", {"labels": owned["labels"]}) | spec, namespace)
            # Somebody took the label, or made it before there were labels.
            kube.create(resource, named("bare", owned | {"labels": {}}) | spec, namespace)


@pytest.fixture(scope="module")
def pod_maker(accounts: Accounts) -> str:
    """An account of somebody who may make and change pods, and nothing about DIJobs."""
    name, kubectl = "pod-maker", accounts.kubectl
    here = ("--namespace", accounts.namespace)
    kubectl(*here, "create", "serviceaccount", name)
    kubectl(*here, "create", "role", name, "--verb=create,get,patch", "--resource=pods")
    account = f"--serviceaccount={accounts.namespace}:{name}"
    kubectl(*here, "create", "rolebinding", name, f"--role={name}", account)
    path = PODS.path(accounts.namespace, "owned")
    what = "the account to have its role"
    wait_until(lambda: accounts.objection(name, "GET", path) == "", what=what)
    return name


OBJECTS: dict[Resource, Object] = {
    PODS: TEMPLATE,
    SERVICES: {"spec": {"ports": [{"port": 80}]}},
    CONFIGMAPS: {"data": {"a": "b"}},
}
CLAIMS = Resource(
    group="", version="v1", plural="persistentvolumeclaims", kind="PersistentVolumeClaim"
)
# What jobs bring along is made, and not touched again.
MADE: dict[Resource, Object] = {
    **OBJECTS,
    CLAIMS: {
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    },
}


def owned_by(made: Object) -> Object:
    """Metadata of an object of a job."""
    return {"labels": job_labels(made), "ownerReferences": [owner_reference(made)]}


def named(name: str, metadata: Object) -> Object:
    return {"metadata": {"name": name, **metadata}}


OWNED = owned_by({"metadata": {"name": "working", "uid": "0f3c"}})
OTHER_OWNER = {**OWNED["ownerReferences"][0], "apiVersion": "v1", "kind": "ConfigMap"}
UNOWNED = "must have a DIJob as its controller"
NOT_OURS = "may change and delete only what a DIJob controls"
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


SCALED = deepcopy(WORKING["spec"]["tasks"])
SCALED[1]["replicas"] = 3
NAMED = [{**SCALED[0], "name": "learner"}, SCALED[1]]
REPLICAS = [{"name": "coordinated-collector-a", "role": "collector"}]
OTHER = {"spec": {"containers": [{"name": "di-container", "image": "other"}]}}


def notes(**annotations: str | None) -> Object:
    return {"metadata": {"annotations": annotations}}


def tasks(*changed: Object) -> Object:
    return {"spec": {"tasks": list(changed)}}


BY_THE_SERVER: dict[str, tuple[Object, bool]] = {
    "replicas": (tasks(*SCALED), True),
    "vacant indexes": (tasks(SCALED[0], {**SCALED[1], "vacant": [1]}), True),
    "replicas, and a name by the mutating webhook": (tasks(*NAMED), True),
    "what it has answered": (notes(**{ANNOTATION_IDEMPOTENCY: "[]"}), True),
    "a template": (tasks({**SCALED[0], "template": OTHER}, SCALED[1]), False),
    "a bound": (tasks(SCALED[0], {**SCALED[1], "minReplicas": 1}), False),
    "a type": (tasks({**SCALED[0], "type": "collector"}, SCALED[1]), False),
    "a name": (tasks(SCALED[0], {**SCALED[1], "name": "other"}), False),
    "one task less": (tasks(SCALED[0]), False),
    "one task more": (tasks(*SCALED, {**SCALED[1], "name": "more"}), False),
    "the order of tasks": (tasks(SCALED[1], SCALED[0]), False),
    "a volume": ({"spec": {"volumes": []}}, False),
    "suspend": ({"spec": {"suspend": True}}, False),
    "a field that was absent": ({"spec": {"ttlSecondsAfterFinished": 0}}, False),
    "a coordinator": ({"spec": {"tasks": None, "coordinated": ROLES}}, False),
    "a label": ({"metadata": {"labels": {"team": "other"}}}, False),
    "an annotation": (notes(note="other"), False),
    "an annotation less": (notes(note=None), False),
    "an annotation more": (notes(other="x"), False),
    "a finalizer": ({"metadata": {"finalizers": ["example.org/x"]}}, False),
    "an owner": ({"metadata": {"ownerReferences": OWNED["ownerReferences"]}}, False),
}
BY_THE_SERVER_IN_COORDINATED: dict[str, tuple[Object, bool]] = {
    "replicas": ({"replicas": REPLICAS}, True),
    "a template": ({"collector": {"template": OTHER}}, False),
    "a field of a template that the CRD does not know": (
        {"collector": {"template": {"metadata": {"labels": {"a": "b"}}}}},
        False,
    ),
    "a role more": ({"learner": {"template": TEMPLATE}}, False),
    "a role less": ({"collector": None}, False),
}


@pytest.mark.proves("security.md#what-an-account-writes/server")
@pytest.mark.parametrize(("change", "taken"), BY_THE_SERVER.values(), ids=BY_THE_SERVER)
def test_the_server_changes_only_replicas_and_what_it_has_answered(
    accounts: Accounts, change: Object, taken: bool
) -> None:
    path = DIJOBS.path(accounts.namespace, "working")
    why = accounts.objection(SERVER, "PATCH", path, change)
    assert (why == "") if taken else _is_refused(why)


BY_THE_OPERATOR: dict[str, tuple[Object, str]] = {
    "replicas and what it took them from": (
        notes(**{ANNOTATION_SCALED: "{}"}) | tasks(SCALED[0], {**SCALED[1], "replicas": 4}),
        "",
    ),
    "a template": (
        tasks({**SCALED[0], "template": OTHER}, SCALED[1]),
        "di-operator may change only replicas and vacant",
    ),
    "a bound": (
        tasks(SCALED[0], {**SCALED[1], "minReplicas": 1}),
        "di-operator may change only replicas and vacant",
    ),
    "what a queue says": (
        notes(**{ANNOTATION_SUSPENDED_BY: "queue"}) | {"spec": {"suspend": True}},
        "",
    ),
    "another field": (
        {"spec": {"ttlSecondsAfterFinished": 5}},
        "di-operator may change only replicas and vacant of spec.tasks[*] and spec.suspend",
    ),
    "a label": (
        {"metadata": {"labels": {"team": "other"}}},
        "di-operator may change only the annotations diengine/scaled and diengine/suspended-by",
    ),
    "what the server has answered": (
        notes(**{ANNOTATION_IDEMPOTENCY: "[1]"}),
        "di-operator may change only the annotations diengine/scaled and diengine/suspended-by",
    ),
}


@pytest.mark.proves("security.md#what-an-account-writes/operator")
@pytest.mark.parametrize(("change", "why"), BY_THE_OPERATOR.values(), ids=BY_THE_OPERATOR)
def test_the_operator_changes_only_replicas_of_a_job(
    accounts: Accounts, change: Object, why: str
) -> None:
    path = DIJOBS.path(accounts.namespace, "working")
    said = accounts.objection(OPERATOR, "PATCH", path, change)
    assert (said == "") if not why else (why in said)


def _is_refused(why: str) -> bool:
    return "di-server may change only" in why


@pytest.mark.proves("security.md#what-an-account-writes/server")
@pytest.mark.parametrize(
    ("change", "taken"),
    BY_THE_SERVER_IN_COORDINATED.values(),
    ids=BY_THE_SERVER_IN_COORDINATED,
)
def test_the_server_changes_only_the_members_of_a_coordinated_job(
    accounts: Accounts, change: Object, taken: bool
) -> None:
    path = DIJOBS.path(accounts.namespace, "coordinated")
    why = accounts.objection(SERVER, "PATCH", path, {"spec": {"coordinated": change}})
    assert (why == "") if taken else _is_refused(why)


@pytest.mark.proves("security.md#what-an-account-writes/server")
@pytest.mark.parametrize(
    ("change", "taken"),
    [
        ({"profilings": {"b": 2}}, True),
        ({"profilings": None}, True),
        ({"profilings": {"b": 2}, "progress": {"step": 2}}, True),
        ({"phase": "Succeeded"}, False),
        ({"restarts": 0}, False),
        ({"restarts": None}, False),
        ({"profilings": {"b": 2}, "reschedules": 1}, False),
    ],
    ids=json.dumps,
)
def test_the_server_changes_only_profilings_and_progress_of_a_status(
    accounts: Accounts, change: Object, taken: bool
) -> None:
    path = DIJOBS.path(accounts.namespace, "working", "status")
    why = accounts.objection(SERVER, "PATCH", path, {"status": change})
    assert (why == "") if taken else ("may change only status.profilings" in why)


FORGED = {
    "with a job as its controller": (OWNED, False),
    "with a job as its owner that does not control it": (
        {"ownerReferences": [{**OWNED["ownerReferences"][0], "controller": False}]},
        True,
    ),
    "with another controller": ({**OWNED, "ownerReferences": [OTHER_OWNER]}, True),
    "with the labels of a job": ({"labels": OWNED["labels"]}, True),
}


@pytest.mark.proves("security.md#what-an-account-writes/everybody-else")
@pytest.mark.parametrize(("metadata", "taken"), FORGED.values(), ids=FORGED)
def test_who_may_only_make_pods_makes_none_of_a_job(
    accounts: Accounts, pod_maker: str, metadata: Object, taken: bool
) -> None:
    path = PODS.path(accounts.namespace)
    why = accounts.objection(pod_maker, "POST", path, named("new", metadata) | TEMPLATE)
    assert (why == "") if taken else ("only an operator (patch on dijobs/status) or" in why)


@pytest.mark.proves("security.md#what-an-account-writes/everybody-else")
def test_who_may_only_make_pods_gives_none_to_a_job(accounts: Accounts, pod_maker: str) -> None:
    path = PODS.path(accounts.namespace, "foreign")
    given = {"metadata": {"ownerReferences": OWNED["ownerReferences"]}}
    assert "dijobs/scale" in accounts.objection(pod_maker, "PATCH", path, given)
    labelled = {"metadata": {"labels": {"a": "b"}}}
    assert accounts.objection(pod_maker, "PATCH", path, labelled) == ""
    # Also a pod that a job controls, as long as it is the same one.
    owned = PODS.path(accounts.namespace, "owned")
    assert accounts.objection(pod_maker, "PATCH", owned, labelled) == ""


def test_the_operator_of_another_release_makes_pods_of_its_jobs(accounts: Accounts) -> None:
    name, here = "other-operator", ("--namespace", accounts.namespace)
    accounts.kubectl(*here, "create", "serviceaccount", name)
    accounts.kubectl(*here, "create", "role", name, "--verb=create", "--resource=pods")
    # What the chart's role for jobs has beside it, and people do not have.
    status = f"--resource=dijobs.{GROUP}/status"
    accounts.kubectl(*here, "create", "role", f"{name}-status", "--verb=patch", status)
    account = f"--serviceaccount={accounts.namespace}:{name}"
    path, body = PODS.path(accounts.namespace), named("new", OWNED) | TEMPLATE
    accounts.kubectl(*here, "create", "rolebinding", name, f"--role={name}", account)
    wait_until(
        lambda: "dijobs/scale" in accounts.objection(name, "POST", path, body),
        what="an account that makes pods to be refused",
    )
    accounts.kubectl(*here, "create", "rolebinding", "status", f"--role={name}-status", account)
    what = "the pod of a job to be admitted"
    wait_until(lambda: accounts.objection(name, "POST", path, body) == "", what=what)


def test_who_may_scale_jobs_may_put_back_whose_a_pod_is(
    accounts: Accounts, kube_config: KubeConfig
) -> None:
    given = {"metadata": {"ownerReferences": OWNED["ownerReferences"]}}
    with SyncKubeClient(config=kube_config) as kube:
        kube.create(PODS, named("orphan", {}) | TEMPLATE, accounts.namespace)
        patched = kube.patch(PODS, "orphan", given, accounts.namespace)
    assert patched["metadata"]["ownerReferences"][0]["uid"] == "0f3c"


def test_people_are_not_asked(accounts: Accounts, kube_config: KubeConfig) -> None:
    with SyncKubeClient(config=kube_config) as kube:
        kube.create(CONFIGMAPS, named("of-a-user", {}), accounts.namespace)
        spec = {"spec": {"suspend": True}}
        patched = kube.patch(DIJOBS, "coordinated", spec, accounts.namespace)
    assert patched["spec"]["suspend"] is True


def test_the_api_server_finds_no_fault_with_the_policies(accounts: Accounts) -> None:
    wait_until(lambda: all("typeChecking" in policy["status"] for policy in _policies(accounts)))
    assert [policy["status"]["typeChecking"] for policy in _policies(accounts)] == [{}] * 8


def _policies(accounts: Accounts) -> list[Object]:
    found = json.loads(accounts.kubectl("get", "validatingadmissionpolicies", "--output", "json"))
    ours = accounts.rendered.of_kind("ValidatingAdmissionPolicy")
    return [policy for policy in found["items"] if policy["metadata"]["name"] in ours]
