"""A request to di-server, the operator's reconciles and the pods that follow are one trace.

The receiver is a stand-in of this process that takes OTLP over HTTP.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
import requests

from di_kube.config import KubeConfig
from tests.fakes.otlp_receiver import receiving
from tests.integration.conftest import ApiServer
from tests.integration.di_server import running_server
from tests.integration.operator_testbed import Testbed, job, on_testbed, task
from tests.waiting import wait_until_async

pytestmark = pytest.mark.usefixtures("crd")

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = f"00-{TRACE}-b7ad6b7169203331-01"


@pytest.mark.proves("operations.md#traces/*")
def test_from_the_request_to_the_pods_that_are_ready(
    kube_config: KubeConfig, api_server: ApiServer, namespace: str, tmp_path: Path
) -> None:
    with (
        receiving() as receiver,
        running_server(tmp_path, api_server.kubeconfig, traces=receiver.url) as server,
    ):

        async def body(testbed: Testbed) -> None:
            async with testbed.operator(traces=receiver.url):
                await testbed.submit(job("a", task("collect", 1)))
                await testbed.phase("a", "Running")
                answer = await asyncio.to_thread(
                    requests.post,
                    f"{server.url}/v2alpha1/{namespace}.a/replicas",
                    json={"task": "collect", "replicas": 2},
                    headers={"traceparent": PARENT},
                    timeout=60,
                )
                assert answer.status_code == 200
                await wait_until_async(lambda: receiver.named("pods ready"), what="the pods")

        on_testbed(kube_config, namespace, body)
        metrics = requests.get(f"{server.url}/metrics", timeout=60).text

    (request,) = receiver.named("addReplicas")
    assert (request.service, request.trace) == ("di-server", TRACE)
    others = [each for each in receiver.spans if each is not request]
    assert {(each.trace, each.parent, each.service) for each in others} == {
        (TRACE, request.span, "di-operator")
    }
    assert sorted(each.attributes["pod"] for each in receiver.named("pod")) == [
        "a-collect-1",
        "a-collect-2",
    ]
    assert receiver.named("reconcile")
    assert f'# {{trace_id="{TRACE}"}}' in metrics
