"""prometheus-adapter serves reports of jobs to an autoscaler, and the use of GPUs to the page."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from di_cli.views.top import gpu_share
from di_dashboard.session import read_metrics
from di_kube.client import KubeClient
from di_kube.config import KubeConfig
from di_kube.errors import NotFound
from di_kube.resources import GPU_METRICS
from di_kube.sync import SyncKubeClient
from tests.autoscaler_page import examples, manifests
from tests.integration.aggregated_api import Certificates, own_namespace, process, registered
from tests.integration.conftest import ROOT, ApiServer
from tests.integration.keda_process import beside
from tests.integration.operator.test_job_tasks import AUTOSCALERS
from tests.integration.operator_testbed import Testbed, on_testbed
from tests.integration.peers.test_keda import AT_ONCE, report, until_collectors
from tests.integration.peers.test_monitoring import ALERTS
from tests.integration.service_accounts import new_account, token_of
from tests.monitoring.exporter import exporting, sample
from tests.monitoring.prometheus import running
from tests.ports import held_port
from tests.waiting import wait_until

pytestmark = pytest.mark.usefixtures("crd", "job_tasks")

Object = dict[str, Any]
NAME: Final = "prometheus-adapter"
APIS: Final = [
    ("external.metrics.k8s.io", "v1beta1"),
    (GPU_METRICS.group, GPU_METRICS.version),
]
PAGE: Final = ROOT / "docs/how-to/dashboard.md"


@pytest.mark.proves(
    "teams-autoscalers.md#by-what-a-job-reports",
    "dashboard.md#use-of-gpus",
    "dashboard.md#rights/use-of-gpus",
    "cluster.md#prometheus-adapter",
)
def test_an_autoscaler_follows_reports_and_the_page_reads_the_use_of_gpus(
    api_server: ApiServer, kube_config: KubeConfig, namespace: str, tmp_path: Path
) -> None:
    used = "".join(
        sample("DCGM_FI_DEV_GPU_UTIL", percent, gpu=str(gpu), namespace=namespace, pod=pod)
        for pod, gpus in {"cartpole-learner-0": (80, 94), "cartpole-collector-0": (40,)}.items()
        for gpu, percent in enumerate(gpus)
    )

    async def body(testbed: Testbed) -> None:
        async with testbed.operator(job_tasks=True) as operator:
            await testbed.submit(manifests("DIJob")["cartpole"])
            await testbed.phase("cartpole", "Running")
            await report(testbed, learnerWaitFrac=0.6)
            with exporting(used) as address:
                targets = {"operator": f"127.0.0.1:{operator.port}", "dcgm-exporter": address}
                async with (
                    beside(running(tmp_path, targets, ALERTS)) as prometheus,
                    adapter(api_server, testbed.client, tmp_path, prometheus=prometheus.url),
                ):
                    await testbed.client.create(AUTOSCALERS, autoscaler(), namespace)
                    await until_collectors(testbed, 4)
                    await report(testbed, learnerWaitFrac=0.05)
                    await until_collectors(testbed, 1)
                    found = await asyncio.to_thread(shares, kube_config, namespace)
                    assert found == {"cartpole-learner-0": 87, "cartpole-collector-0": 40}

    on_testbed(kube_config, namespace, body)


def autoscaler() -> Object:
    """The page's, which takes replicas away at once."""
    found = manifests("HorizontalPodAutoscaler")["cartpole-collector"]
    return {**found, "spec": {**found["spec"], "behavior": found["spec"]["behavior"] | AT_ONCE}}


def shares(kube_config: KubeConfig, namespace: str) -> dict[str, float | None]:
    """The use of GPUs by pod, as the page reads it with the rights of its table alone."""
    resource = "pods/DCGM_FI_DEV_GPU_UTIL"
    rule = {"apiGroups": [GPU_METRICS.group], "resources": [resource], "verbs": ["get"]}
    with SyncKubeClient(config=kube_config) as kube:
        new_account(kube, namespace, "reader", [rule])
        token = token_of(kube, namespace, "reader")
    config = KubeConfig(
        server=kube_config.server,
        ca_pem=kube_config.ca_pem,
        authorization=lambda: f"Bearer {token}",
    )

    def found() -> dict[str, float | None]:
        try:
            return dict(map(gpu_share, read_metrics(client, GPU_METRICS, namespace, "cartpole")))
        except NotFound:
            return {}

    with SyncKubeClient(config=config) as client:
        return wait_until(found, what="the use of GPUs")


@asynccontextmanager
async def adapter(
    api_server: ApiServer, client: KubeClient, folder: Path, *, prometheus: str
) -> AsyncIterator[None]:
    """Run prometheus-adapter with the rules of the documents."""
    certificates = Certificates(NAME, folder / "adapter-certs")
    (rules,) = (each for each in examples() if "externalRules" in each)
    (config := folder / "adapter.yaml").write_text(yaml.safe_dump({**rules, **gpu_rules()}))
    with held_port() as port:
        command = [
            str(await asyncio.to_thread(api_server.binary, NAME)),
            *certificates.arguments(port, api_server.kubeconfig),
            f"--prometheus-url={prometheus}",
            f"--config={config}",
            # By default it asks every ten minutes which metrics there are.
            "--metrics-relist-interval=1s",
        ]
        async with own_namespace(client, NAME):
            with process(command, os.environ, folder / "adapter.log"):
                async with registered(
                    client, certificates, host=api_server.host_address, port=port, apis=APIS
                ):
                    yield


def gpu_rules() -> Object:
    """Those of the page's part about GPUs."""
    section = PAGE.read_text().partition("\n### Use of GPUs\n")[2]
    (text, *_) = re.findall(r"```yaml\n(.*?)```", section, re.DOTALL)
    found: Object = yaml.safe_load(text)
    return found
