"""Dry runs of the pods of jobs that wait, before the rules that only the cluster knows."""

from __future__ import annotations

import copy
import re
import ssl
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from di_api.names import LABEL_QUEUE
from di_certs.files import CA_CERTIFICATE, CERTIFICATE, PRIVATE_KEY, write_certificates
from di_kube.errors import ApiError
from di_kube.resources import NAMESPACES, PODS, VALIDATING_WEBHOOKS, Resource
from tests.integration.admitting import POLICIES, POLICY_BINDINGS
from tests.integration.conftest import ApiServer
from tests.integration.operator_testbed import (
    Object,
    Operator,
    Testbed,
    condition,
    job,
    task,
    with_testbed,
)

pytestmark = pytest.mark.usefixtures("crd")

LIMIT_RANGES = Resource(group="", version="v1", plural="limitranges", kind="LimitRange")


@asynccontextmanager
async def teams_only(testbed: Testbed) -> AsyncIterator[None]:
    """A policy of the cluster by which pods of the namespace have a label `team`."""
    name, client = testbed.namespace, testbed.client
    match = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
    policy: Object = {
        "metadata": {"name": name},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [{**match, "operations": ["CREATE"]}]},
            "validations": [
                {
                    "expression": "has(object.metadata.labels) && 'team' in object.metadata.labels",
                    "message": "pods name their team",
                }
            ],
        },
    }
    here = {"matchLabels": {"kubernetes.io/metadata.name": name}}
    binding: Object = {
        "metadata": {"name": name},
        "spec": {
            "policyName": name,
            "validationActions": ["Deny"],
            "matchResources": {"namespaceSelector": here},
        },
    }
    await client.create(POLICIES, policy)
    await client.create(POLICY_BINDINGS, binding)
    try:
        await testbed.until(lambda: refuses(testbed, {}), "the policy to be asked")
        yield
    finally:
        await client.delete(POLICY_BINDINGS, name)
        await client.delete(POLICIES, name)


async def refuses(testbed: Testbed, spec: Object) -> bool:
    """Whether the API server refuses a plain pod."""
    containers = [{"name": "main", "image": "none"}]
    body = {"metadata": {"name": "probe"}, "spec": {"containers": containers, **spec}}
    try:
        await testbed.client.create(PODS, body, testbed.namespace, dry_run=True)
    except ApiError:
        return True
    return False


async def trials(testbed: Testbed, name: str, value: str) -> Object:
    """Wait for the condition PodsRefused of a job; returns it."""

    async def is_there() -> bool:
        conditions = (await testbed.status(name)).get("conditions") or ()
        return any((c["type"], c["status"]) == ("PodsRefused", value) for c in conditions)

    await testbed.until(is_there, f"PodsRefused of {name} to be {value}")
    return condition(await testbed.status(name), "PodsRefused")


async def count(operator: Operator, what: str) -> int:
    """The value of a counter of the operator."""
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"http://127.0.0.1:{operator.port}/metrics") as answer,
    ):
        found = re.search(f"^{re.escape(what)} (.*)$", await answer.text(), re.M)
    return int(float(found[1])) if found is not None else 0


DRY_RUNS = 'di_operator_actions_total{action="DryRunPod",result="%s"}'


@with_testbed
async def test_a_policy_of_the_cluster_is_met_while_a_job_waits(testbed: Testbed) -> None:
    async with teams_only(testbed), testbed.operator() as operator:
        await testbed.submit(job("held", task(replicas=3), suspend=True))
        queued = job("queued", task())
        queued["metadata"]["labels"] = {LABEL_QUEUE: "team"}
        await testbed.submit(queued)
        for name in ("held", "queued"):
            found = await trials(testbed, name, "True")
            assert found["reason"] == "InvalidTemplate"
            assert "pods name their team" in found["message"]
            assert (await testbed.status(name))["phase"] == "Pending"
        warned = [each["reason"] for each in await testbed.events("held")]
        assert warned.count("PodsRefused") == 1
        assert await count(operator, DRY_RUNS % "refused") == 2
        right = copy.deepcopy(task(replicas=3))
        right["template"]["metadata"]["labels"] = {"team": "rl"}
        await testbed.patch("held", {"tasks": [right]})
        await trials(testbed, "held", "False")
        assert testbed.created == {}
        # What is made at once is refused as it is made.
        await testbed.submit(job("started", task()))
        status = await testbed.phase("started", "Failed")
        assert condition(status, "Failed")["reason"] == found["reason"]
        assert await count(operator, DRY_RUNS % "ok") == 1
        assert await count(operator, DRY_RUNS % "refused") == 2
        await testbed.patch("held", {"suspend": False})
        await testbed.phase("held", "Running")


@with_testbed
async def test_pod_security_and_limits_are_met_while_a_job_waits(
    testbed: Testbed, namespace: str
) -> None:
    limits = {"metadata": {"name": "small"}, "spec": {"limits": [_at_most("1")]}}
    await testbed.client.create(LIMIT_RANGES, limits, namespace)
    enforced = {"pod-security.kubernetes.io/enforce": "baseline"}
    await testbed.client.patch(NAMESPACES, namespace, {"metadata": {"labels": enforced}})
    large = {"containers": [{"name": "a", "image": "none", **_resources("2")}]}
    await testbed.until(lambda: refuses(testbed, large), "the limits to be enforced")
    shared = {"hostNetwork": True}
    await testbed.until(lambda: refuses(testbed, shared), "Pod Security to be enforced")
    async with testbed.operator():
        wrong = {"limits": task(), "security": task()}
        wrong["limits"]["template"]["spec"]["containers"][0] |= _resources("2")
        wrong["security"]["template"]["spec"]["hostPID"] = True
        for name, words in (("limits", "maximum cpu usage"), ("security", "violates PodSecurity")):
            await testbed.submit(job(name, wrong[name], suspend=True))
            found = await trials(testbed, name, "True")
            assert found["reason"] == "CreateForbidden"
            assert words in found["message"]


@asynccontextmanager
async def webhook_for_pods(testbed: Testbed, host: str, folder: Path) -> AsyncIterator[None]:
    """A webhook of another product: it denies pods of the namespace without a code."""

    async def deny(request: web.Request) -> web.Response:
        review = await request.json()
        status = {"message": "no team is named"}
        answer = {"uid": review["request"]["uid"], "allowed": False, "status": status}
        return web.json_response({**review, "response": answer})

    name = testbed.namespace
    write_certificates(folder, [host], now=datetime.now(UTC), lifetime=timedelta(days=1))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / CERTIFICATE, folder / PRIVATE_KEY)
    application = web.Application()
    application.router.add_post("/", deny)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, host, 0, ssl_context=context)
    await site.start()
    port = runner.addresses[0][1]
    authority = b64encode((folder / CA_CERTIFICATE).read_bytes()).decode()
    entry: Object = {
        "name": "pods.example.org",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "clientConfig": {"url": f"https://{host}:{port}/", "caBundle": authority},
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}},
        "rules": [
            {
                "apiGroups": [""],
                "apiVersions": ["v1"],
                "resources": ["pods"],
                "operations": ["CREATE"],
            }
        ],
    }
    body = {"metadata": {"name": name}, "webhooks": [entry]}
    await testbed.client.create(VALIDATING_WEBHOOKS, body)
    try:
        await testbed.until(lambda: refuses(testbed, {}), "the webhook to be asked")
        yield
    finally:
        await testbed.client.delete(VALIDATING_WEBHOOKS, name)
        await runner.cleanup()


@with_testbed
async def test_a_webhook_that_denies_pods_without_a_code_is_reported(
    testbed: Testbed, api_server: ApiServer, tmp_path: Path
) -> None:
    host = api_server.host_address
    async with (
        webhook_for_pods(testbed, host, tmp_path),
        testbed.operator(),
    ):
        await testbed.submit(job("held", task(), suspend=True))
        found = await trials(testbed, "held", "True")
        assert found["reason"] == "InvalidTemplate"
        assert "no team is named" in found["message"]


@with_testbed
async def test_jobs_that_start_at_once_cost_no_dry_run(testbed: Testbed) -> None:
    async with testbed.operator() as operator:
        for number in range(3):
            await testbed.submit(job(f"plain-{number}", task(replicas=2)))
        for number in range(3):
            await testbed.phase(f"plain-{number}", "Running")
        # The next one that waits is tried, so these would have been.
        await testbed.submit(job("held", task(), suspend=True))

        async def is_tried() -> bool:
            return await count(operator, 'di_operator_pod_trials_total{result="ok"}') > 0

        await testbed.until(is_tried, "the job that waits to be tried")
        assert await count(operator, DRY_RUNS % "ok") == 1


def _resources(cpu: str) -> dict[str, Any]:
    return {"resources": {"requests": {"cpu": cpu}, "limits": {"cpu": cpu}}}


def _at_most(cpu: str) -> dict[str, Any]:
    return {"type": "Container", "max": {"cpu": cpu}}
