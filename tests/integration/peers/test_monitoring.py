"""A real Prometheus asks the services, and every expression of the chart has an answer there."""

from __future__ import annotations

import asyncio
import json
from functools import partial
from pathlib import Path

import pytest
import requests

from di_kube.config import KubeConfig
from di_kube.resources import DIJOBS
from tests.chart.chart import CHART
from tests.integration.conftest import ApiServer
from tests.integration.di_server import running_server
from tests.integration.operator_testbed import Testbed, job, on_testbed, task
from tests.integration.webhook_process import webhook_process
from tests.monitoring.exporter import exporting, sample
from tests.monitoring.prometheus import Prometheus, running
from tests.waiting import wait_until
from tools.documents import dashboards

pytestmark = pytest.mark.usefixtures("crd")

ALERTS = CHART / "files/alerts.yaml"
REPORTED = {
    "progress": {"step": 10, "totalSteps": 100, "reportedAt": "2026-01-01T00:00:00Z"},
    "profilings": {"learnerWaitFrac": 0.1, "envStepsPerSec": 100, "trainStepsPerSec": 10},
}
MEMORY, MEMORY_BYTES = "container_memory_working_set_bytes", 1 << 30
REVIEW = json.dumps({"kind": "AdmissionReview", "request": {"uid": "x"}}).encode()


def test_what_dashboards_and_alerts_ask_is_answered(
    api_server: ApiServer, kube_config: KubeConfig, namespace: str, tmp_path: Path
) -> None:
    with (
        exporting(_measured(namespace)) as measured,
        running_server(tmp_path, api_server.kubeconfig) as server,
        webhook_process(tmp_path / "webhook", "127.0.0.1") as webhook,
    ):

        async def body(testbed: Testbed) -> None:
            async with testbed.operator() as operator:
                await testbed.submit(job("trains", task("learner", 2)))
                await testbed.submit(job("waits", task("learner"), suspend=True))
                await testbed.phase("trains", "Running")
                await testbed.client.patch(
                    DIJOBS, "trains", {"status": REPORTED}, namespace, subresource="status"
                )
                targets = {
                    "operator": f"127.0.0.1:{operator.port}",
                    "server": f"127.0.0.1:{server.ports[1]}",
                    "webhook": webhook.health.removeprefix("http://"),
                    "kubelet": measured,
                }
                await asyncio.to_thread(_ask, tmp_path, targets, namespace)

        requests.get(f"{server.url}/v2alpha1/job/{namespace}/trains/replicas", timeout=60)
        webhook.post("/validate", REVIEW)
        on_testbed(kube_config, namespace, body)


def _ask(folder: Path, targets: dict[str, str], namespace: str) -> None:
    with running(folder, targets, ALERTS) as prometheus:
        for text, may_be_empty in dashboards.expressions():
            asked = _filled(text, namespace)
            if may_be_empty:
                # It is read and understood at least.
                prometheus.query(asked)
            else:
                has_data = partial(_has_data, prometheus, asked)
                wait_until(has_data, what=f"data of {text}")
        for text, _ in dashboards.expressions():
            if "container_" in text or "DCGM_" in text:
                asked = _filled(text, namespace)
                shows_pods = partial(_shows_pods_of_the_job, prometheus, asked)
                wait_until(shows_pods, what=f"the job's pods alone in {asked}")
        wait_until(lambda: _are_evaluated(prometheus), what="the rules to be evaluated")
        assert {rule["name"]: rule.get("lastError", "") for rule in prometheus.rules()} == (
            dict.fromkeys((rule["name"] for rule in prometheus.rules()), "")
        )
        # The webhook's certificate here is good for a day; all else is well, and raises no alarm,
        # except that a busy machine may be slow.
        raised = {each["metric"]["alertname"] for each in prometheus.query("ALERTS")}
        assert raised - {"DIWebhookSlow"} == {"DIWebhookCertificateExpires"}
        (waits,) = prometheus.query(f'di_job_queue_wait_seconds{{namespace="{namespace}"}}')
        assert waits["metric"]["dijob"] == "waits"


def _measured(namespace: str) -> str:
    """What kubelets and dcgm-exporter measure of the job's pods, and of one of another job."""
    pods = ("trains-learner-0", "trains-learner-1", "trains-other-learner-0")
    # By cAdvisor, by the kubelet, and of the pod.
    series = ({"container": "c", "id": "/c"}, {"container": "c"}, {"container": "", "id": "/"})
    return "".join(
        sample("container_cpu_usage_seconds_total", 9, namespace=namespace, pod=pod, **labels)
        + sample(MEMORY, MEMORY_BYTES, namespace=namespace, pod=pod, **labels)
        for pod in pods
        for labels in series
    ) + "".join(
        sample("DCGM_FI_DEV_GPU_UTIL", 80, pod=pod, namespace=namespace, gpu="0") for pod in pods
    )


def _has_data(prometheus: Prometheus, text: str) -> bool:
    return bool(prometheus.query(text))


def _filled(text: str, namespace: str) -> str:
    """An expression with what Grafana has for its variables."""
    values = {"$__rate_interval": "30s", "$namespace": namespace, "$dijob": "trains"}
    for name, value in values.items():
        text = text.replace(name, value)
    return text


def _shows_pods_of_the_job(prometheus: Prometheus, text: str) -> bool:
    shown = {each["metric"]["pod"]: float(each["value"][1]) for each in prometheus.query(text)}
    if MEMORY in text:
        assert set(shown.values()) <= {MEMORY_BYTES}
    return shown.keys() == {"trains-learner-0", "trains-learner-1"}


def _are_evaluated(prometheus: Prometheus) -> bool:
    rules = prometheus.rules()
    return bool(rules) and all(rule["health"] == "ok" for rule in rules)
