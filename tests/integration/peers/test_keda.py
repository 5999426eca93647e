"""KEDA itself scales a task by what docs/how-to/teams-autoscalers.md has for it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pytest

from di_api.names import GROUP
from di_certs.files import CA_CERTIFICATE, write_certificates
from di_kube.config import KubeConfig
from di_kube.resources import DIJOBS, EVENTS, SECRETS, Resource
from di_kube.sync import SyncKubeClient
from tests.autoscaler_page import examples, manifests
from tests.integration.conftest import ApiServer
from tests.integration.di_server import running_server
from tests.integration.keda_process import beside, keda
from tests.integration.operator_testbed import Testbed, on_testbed
from tests.integration.peers.test_monitoring import ALERTS
from tests.integration.service_accounts import new_account, token_of
from tests.monitoring.prometheus import running

pytestmark = pytest.mark.usefixtures("crd", "job_tasks")

Object = dict[str, Any]
SCALED: Final = Resource(
    group="keda.sh", version="v1alpha1", plural="scaledobjects", kind="ScaledObject"
)
AUTHENTICATIONS: Final = Resource(
    group="keda.sh",
    version="v1alpha1",
    plural="triggerauthentications",
    kind="TriggerAuthentication",
)
MOST = 8
"""The bound of the page: the autoscaler multiplies for as long as the reported value stays high."""
AT_ONCE: Final = {"scaleDown": {"stabilizationWindowSeconds": 0}}
"""An autoscaler waits for five minutes before it takes replicas away."""


@pytest.mark.proves("teams-autoscalers.md#keda", "cluster.md#keda")
def test_keda_scales_by_prometheus_and_by_what_di_server_tells(
    api_server: ApiServer, kube_config: KubeConfig, namespace: str, tmp_path: Path
) -> None:
    """With both triggers of the page, in this order, on one KEDA."""
    trusted = tmp_path / "trusted"
    write_certificates(tmp_path, ["127.0.0.1"], now=datetime.now(UTC), lifetime=timedelta(days=1))
    trusted.mkdir()
    (trusted / "di-server.crt").write_bytes((tmp_path / CA_CERTIFICATE).read_bytes())
    with (
        running_server(
            tmp_path, api_server.kubeconfig, certificates=tmp_path, auth="required"
        ) as server,
        SyncKubeClient(config=kube_config) as kube,
    ):
        rule = {"apiGroups": [GROUP], "resources": ["dijobs/scale"], "verbs": ["get"]}
        new_account(kube, namespace, "reader", [rule])
        token = token_of(kube, namespace, "reader", audience="di-server")
        kube.create(
            SECRETS,
            {"metadata": {"name": "di-server-reader"}, "stringData": {"token": token}},
            namespace,
        )

        async def body(testbed: Testbed) -> None:
            async with testbed.operator(job_tasks=True) as operator:
                await testbed.submit(manifests("DIJob")["cartpole"])
                await testbed.phase("cartpole", "Running")
                await report(testbed, learnerWaitFrac=0.6)
                targets = {"operator": f"127.0.0.1:{operator.port}"}
                async with keda(api_server, kube_config, tmp_path / "keda", trusted=trusted):
                    async with beside(running(tmp_path, targets, ALERTS)) as prometheus:
                        replaced = {
                            "http://prometheus.monitoring:9090": prometheus.url,
                            'namespace="team"': f'namespace="{namespace}"',
                        }
                        async with scaled(testbed, "prometheus", replaced):
                            await until_collectors(testbed, MOST)
                            await report(testbed, learnerWaitFrac=0.05)
                            await until_collectors(testbed, 2)
                    (authentication,) = manifests("TriggerAuthentication").values()
                    await testbed.client.create(AUTHENTICATIONS, authentication, namespace)
                    replaced = {
                        "https://di-server.di-system.svc:8443": server.encrypted_url,
                        "team.cartpole": f"{namespace}.cartpole",
                    }
                    async with scaled(testbed, "metrics-api", replaced):
                        await report(testbed, learnerWaitFrac=0.6)
                        await until_collectors(testbed, MOST)
                        # A key that is not reported is no zero.
                        await report(testbed, learnerWaitFrac=None)
                        await testbed.until(lambda: has_failed(testbed), "KEDA to say so")
                        assert await collectors(testbed) == MOST
                        await report(testbed, learnerWaitFrac=0.05)
                        await until_collectors(testbed, 2)

        on_testbed(kube_config, namespace, body)


async def report(testbed: Testbed, **profilings: float | None) -> None:
    """As the job's programs report by di-server; None takes one back."""
    status = {"profilings": profilings}
    await testbed.client.patch(
        DIJOBS, "cartpole", {"status": status}, testbed.namespace, subresource="status"
    )


@asynccontextmanager
async def scaled(testbed: Testbed, kind: str, replaced: dict[str, str]) -> AsyncIterator[None]:
    """The page's ScaledObject, with the trigger of that kind, while the block runs."""
    (found,) = manifests("ScaledObject").values()
    text = json.dumps([each for each in triggers() if each["type"] == kind])
    for part, other in replaced.items():
        assert json.dumps(part)[1:-1] in text, part
        text = text.replace(json.dumps(part)[1:-1], json.dumps(other)[1:-1])
    advanced = {"horizontalPodAutoscalerConfig": {"behavior": AT_ONCE}}
    # By default it looks by itself every half minute, and makes its autoscaler wait for that.
    changed = {"triggers": json.loads(text), "advanced": advanced, "pollingInterval": 1}
    spec = {**found["spec"], **changed}
    await testbed.client.create(SCALED, {**found, "spec": spec}, testbed.namespace)
    yield
    name = found["metadata"]["name"]
    await testbed.client.delete(SCALED, name, testbed.namespace)

    async def is_gone() -> bool:
        listed, _ = await testbed.client.list(SCALED, testbed.namespace)
        return not listed

    await testbed.until(is_gone, "the ScaledObject to be gone")


def triggers() -> list[Object]:
    """Those of the page, also the one that stands by itself."""
    specs = [body.get("spec") or body for body in examples()]
    return [trigger for spec in specs for trigger in spec.get("triggers", ())]


async def collectors(testbed: Testbed) -> int:
    spec = (await testbed.job("cartpole"))["spec"]
    (count,) = (each.get("replicas", 1) for each in spec["tasks"] if each["type"] == "collector")
    return int(count)


async def until_collectors(testbed: Testbed, wanted: int) -> None:
    async def are_there() -> bool:
        return await collectors(testbed) == wanted

    await testbed.until(are_there, f"{wanted} collectors")


async def has_failed(testbed: Testbed) -> bool:
    """Whether an event of KEDA says that it cannot read the value."""
    events, _ = await testbed.client.list(EVENTS, testbed.namespace)
    return any(each.get("reason") == "KEDAScalerFailed" for each in events)
