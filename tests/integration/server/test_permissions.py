"""Operator and server under their own accounts: nothing is missing, nothing is for nothing."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import secrets
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import requests

from di_api.names import ANNOTATION_SUSPENDED_BY, GROUP, LABEL_JOB
from di_cluster.cluster import Cluster
from di_kube.config import KubeConfig, load_config
from di_kube.errors import NotFound
from di_kube.resources import CONFIGMAPS, DIJOBS, NAMESPACES, PODS, Resource
from di_kube.sync import SyncKubeClient
from di_operator.config import load_config as operator_config
from di_service.settings import Address
from tests.chart.chart import Chart
from tests.failures.clusters import running
from tests.integration.accounts import OPERATOR, SERVER, Accounts, installed_accounts
from tests.integration.conftest import install_crd
from tests.integration.di_server import ServerProcess, running_server
from tests.integration.operator_testbed import Testbed, job, on_testbed, task
from tests.integration.scripted_kueue import (
    queued_job,
    say,
    served,
    until_gone,
    until_released,
    workload,
)
from tests.integration.service_accounts import token_of

NAMESPACE = "di-system"
ADMISSION = "di-webhook-admission"
USER = f"system:serviceaccount:{NAMESPACE}:"
AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "Metadata", "users": [USER + OPERATOR, USER + SERVER]},
        {"level": "None"},
    ],
}
NO_STREAM = "an API server that does not begin a watch with what is there"
# What is granted and not used here, with the reason why it is granted all the same.
NOT_SEEN = {
    OPERATOR: {
        "update configmaps": "node lists of jobs of more than a hundred replicas, after scaling",
        "patch configmaps": "the same, when somebody took their labels",
        "delete configmaps": "the same, when the job ends",
        "get pods": "one is in the way of a create or has changed since it was read",
        "get services": "the same",
        f"get dijobs.{GROUP}": "a status write met a newer job",
        f"patch dijobs/status.{GROUP}": "by this right operators of other releases are known",
        "patch services": "somebody took a Service's labels",
        "patch events": "an event happens again",
        "get events": "an event of an earlier leader goes on",
        f"get dijobtasks.{GROUP}": "somebody wrote to one while it was shown anew",
        f"list dijobtasks.{GROUP}": NO_STREAM,
        f"update dijobs/finalizers.{GROUP}": "asked by an admission plugin that is off by default",
        "update secrets": "certificates are renewed",
        f"get aggregatorconfigs.{GROUP}": "a coordinated job has an aggregator",
        f"create aggregatorconfigs.{GROUP}": "the first apply, which is written down as a patch",
        "create subjectaccessreviews.authorization.k8s.io": "another release has a claim",
        "list nodes": NO_STREAM,
        "get workloads.kueue.x-k8s.io": "one has changed since it was read",
    },
    SERVER: {
        f"list aggregatorconfigs.{GROUP}": NO_STREAM,
        "list nodes": NO_STREAM,
        "list pods": NO_STREAM,
        f"get aggregatorconfigs.{GROUP}": "a learner on several GPUs, before the watch has begun",
    },
}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """The chart's accounts on an API server that writes down what they do."""

    accounts: Accounts
    kube_config: KubeConfig
    audit_log: Path

    def done(self, account: str) -> dict[str, set[int]]:
        """What the account has asked for, "<verb> <resource>", with the codes of the answers."""
        found: dict[str, set[int]] = {}
        for line in self.audit_log.read_text().splitlines():
            entry = json.loads(line)
            if entry["user"]["username"] == USER + account and "objectRef" in entry:
                asked = f"{entry['verb']} {_name_of(entry['objectRef'])}"
                found.setdefault(asked, set()).add(entry["responseStatus"]["code"])
        return found

    def granted(self, account: str) -> set[str]:
        """What the chart's roles let the account do, in the same words."""
        rendered = self.accounts.rendered
        return {
            f"{verb} {resource}{'.' if group else ''}{group}"
            for kind in ("Role", "ClusterRole")
            for binding in rendered.of_kind(f"{kind}Binding").values()
            if binding["subjects"][0]["name"] == account
            for rule in rendered.one(kind, binding["roleRef"]["name"])["rules"]
            for group in rule["apiGroups"]
            for resource in rule["resources"]
            for verb in rule["verbs"]
        }

    def settings(self, account: str) -> dict[str, str]:
        """What the chart sets for the service of the account."""
        data: Mapping[str, str] = self.accounts.rendered.one("ConfigMap", account)["data"]
        return dict(data)


def _name_of(reference: Mapping[str, str]) -> str:
    resource = "/".join(filter(None, (reference["resource"], reference.get("subresource"))))
    return ".".join(filter(None, (resource, reference.get("apiGroup"))))


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Release]:
    folder = tmp_path_factory.mktemp("permissions")
    policy, log = folder / "audit-policy.json", folder / "audit.log"
    policy.write_text(json.dumps(AUDIT_POLICY))
    # Its own: the server of the other tests writes nothing down.
    cluster = Cluster(
        f"audit-{secrets.token_hex(3)}",
        api_server_args=(f"--audit-policy-file={policy}", f"--audit-log-path={log}"),
    )
    with running(cluster):
        config = load_config(str(cluster.kubeconfig))
        with SyncKubeClient(config=config) as kube:
            kube.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
        rendered = Chart(helm=cluster.binary("helm")).render(release=NAMESPACE, namespace=NAMESPACE)
        for definition in rendered.of_kind("CustomResourceDefinition").values():
            asyncio.run(install_crd(config, dict(definition)))
        with installed_accounts(cluster, NAMESPACE, folder) as accounts:
            _install_webhooks(accounts)
            yield Release(accounts=accounts, kube_config=config, audit_log=log)


def _install_webhooks(accounts: Accounts) -> None:
    """Where the operator publishes its authority; nothing is asked, since no webhook runs."""
    nowhere = {"matchLabels": {"none": "none"}}
    bodies = [
        {**body, "webhooks": [{**h, "namespaceSelector": nowhere} for h in body["webhooks"]]}
        for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
        for body in accounts.rendered.of_kind(kind).values()
    ]
    bodies.append(dict(accounts.rendered.one("ConfigMap", ADMISSION)))
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": bodies})
    accounts.kubectl("apply", "--filename", "-", stdin=text)


@pytest.mark.proves(
    "security.md#permissions/webhook",
    "security.md#permissions/operator-*",
    "security.md#permissions/server-*",
)
def test_every_permission_is_there_and_is_used(release: Release, tmp_path: Path) -> None:
    # As the chart sets them up, but for where they listen; with every token checked.
    chosen = {**release.settings(SERVER), "DI_SERVER_AUTH": "required"}
    given: dict[str, Any] = {
        key.removeprefix("DI_SERVER_").lower(): value
        for key, value in chosen.items()
        if key.startswith("DI_SERVER_")
        and not key.endswith(("BINDS", "HEALTH_BIND", "TLS_PORT", "PEERS"))
    }

    async def body(testbed: Testbed) -> None:
        with running_server(tmp_path, release.accounts.kubeconfig(SERVER), **given) as server:
            async with (
                served(release.kube_config, testbed.client),
                testbed.operator(
                    client_config=load_config(str(release.accounts.kubeconfig(OPERATOR))),
                    **_operator(release),
                ),
            ):
                await _live(release, testbed, server)

    on_testbed(release.kube_config, NAMESPACE, body)

    for account in (OPERATOR, SERVER):
        done = release.done(account)
        assert {asked for asked, codes in done.items() if codes & {401, 403}} == set()
        unused = release.granted(account) - set(done)
        assert unused <= set(NOT_SEEN[account]), f"{account} is granted for nothing"
        # Else a reason above has had its day.
        assert set(NOT_SEEN[account]) <= release.granted(account)


def _operator(release: Release) -> dict[str, Any]:
    environment = {
        **release.settings(OPERATOR),
        "DI_OPERATOR_NAMESPACE": NAMESPACE,
        "DI_OPERATOR_SCHEDULING_PERIOD": "1",
    }
    config = operator_config([], environment, random_identity=str)
    values = {each.name: getattr(config, each.name) for each in dataclasses.fields(config)}
    values["health_bind"] = Address(host="127.0.0.1", port=0)
    return {key: value for key, value in values.items() if key not in ("namespace", "identity")}


async def _live(release: Release, testbed: Testbed, server: ServerProcess) -> None:
    """A job is made, scaled, mended, reported on, ends, and goes by itself."""

    async def exists(resource: Resource, name: str) -> bool:
        try:
            await testbed.client.get(resource, name, NAMESPACE)
        except NotFound:
            return False
        return True

    # Written last, when the webhook configurations hold the authority.
    async def is_confirmed() -> bool:
        found = await testbed.client.get(CONFIGMAPS, ADMISSION, NAMESPACE)
        return bool(found.get("data"))

    await testbed.until(is_confirmed, "the webhook's pods to be allowed to start")
    # Not at once, which would leave the Service to the garbage collector.
    brought = {"apiVersion": "v1", "metadata": {"name": "$(JOB)"}}
    claim = {
        "kind": "PersistentVolumeClaim",
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    companions = [brought | claim, brought | {"kind": "ConfigMap"}]
    made = await testbed.submit(
        job(
            "a",
            {**task(replicas=2), "scalable": True, "maxReplicas": 8, "maxUnavailable": 1},
            ttlSecondsAfterFinished=3,
            companions=companions,
        )
    )
    await testbed.phase("a", "Running")

    pod = (await testbed.pods("a"))["a-work-0"]
    own = _token(release, "default", pod)
    url = server.replicas_of(made)
    assert await _ask("POST", url, own, {"replicas": 1}) == 200
    assert await _ask("GET", url, own) == 200
    assert await _ask("POST", url.replace("/replicas", "/profilings"), own, {"a": 1}) == 200
    members = url.replace("/replicas", "/members")
    assert await _ask("PUT", f"{members}/a-work-0", own, {"url": "http://a"}) == 200
    assert await _ask("GET", members, own) == 200
    await testbed.until(lambda: _has_pods(testbed, 3), "a third pod")
    for replicas in (4, 3):
        scale = ("scale", "dijobtask/a-work", f"--replicas={replicas}")
        release.accounts.kubectl("--namespace", NAMESPACE, *scale)
        await testbed.until(partial(_has_pods, testbed, replicas), "what kubectl scaled")

    await testbed.client.patch(
        PODS, "a-work-1", {"metadata": {"labels": {LABEL_JOB: None}}}, NAMESPACE
    )
    await testbed.until(lambda: _has_pods(testbed, 3), "the label to be back")

    # People have what Kubernetes' own roles have been given.
    release.accounts.kubectl("--namespace", NAMESPACE, "create", "serviceaccount", "ann")
    release.accounts.kubectl(
        *("--namespace", NAMESPACE, "create", "rolebinding", "ann"),
        *("--clusterrole=edit", f"--serviceaccount={NAMESPACE}:ann"),
    )
    hers = _token(release, "ann")

    async def may_scale() -> bool:
        return await _ask("DELETE", url, hers, {"replicas": 1}) == 200

    await testbed.until(may_scale, "the API server to know of the role of edit")
    await testbed.until(lambda: _has_pods(testbed, 2), "a pod to go")
    await testbed.phase("a", "Running")

    for name in await testbed.pods("a"):
        await testbed.kubelet.finish(NAMESPACE, name)

    async def is_gone() -> bool:
        return not await exists(DIJOBS, "a")

    await testbed.until(is_gone, "the job to be deleted")
    await _queue(testbed)


async def _queue(testbed: Testbed) -> None:
    """A job is admitted, evicted and taken out of its queue."""
    await testbed.submit(queued_job("q"))
    core = "q-core"

    async def is_made() -> bool:
        return await workload(testbed, core) is not None

    await testbed.until(is_made, "a Workload to be made")
    await say(testbed, core, None, QuotaReserved=True, Admitted=True)
    await testbed.phase("q", "Running")
    await say(testbed, core, None, QuotaReserved=True, Admitted=True, Evicted=True)
    await until_released(testbed, core)
    mine = {"annotations": {ANNOTATION_SUSPENDED_BY: None}}
    await testbed.client.patch(DIJOBS, "q", {"metadata": mine}, NAMESPACE)
    await until_gone(testbed, core)


async def _has_pods(testbed: Testbed, count: int) -> bool:
    return len(await testbed.pods("a")) == count


def _token(release: Release, account: str, pod: dict[str, Any] | None = None) -> str:
    with SyncKubeClient(config=release.kube_config) as kube:
        return token_of(kube, NAMESPACE, account, audience="di-server", pod=pod)


async def _ask(method: str, url: str, token: str, body: object = None) -> int:
    """Status of di-server's answer."""
    headers = {"Authorization": f"Bearer {token}", "Idempotency-Key": secrets.token_hex(4)}
    if method == "GET":
        del headers["Idempotency-Key"]
    answer = await asyncio.to_thread(
        requests.request, method, url, json=body, headers=headers, timeout=60
    )
    return answer.status_code
