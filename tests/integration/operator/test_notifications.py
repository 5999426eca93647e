"""Notifications by real operators to a real receiver: once, also when the leader is killed."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from di_kube.config import KubeConfig
from di_kube.resources import LEASES
from tests.fakes.receiver import Receiver, receiving
from tests.integration.conftest import ApiServer
from tests.integration.operator.test_failover import end, start
from tests.integration.operator_testbed import Testbed, job, on_testbed, task
from tests.waiting import wait_until_async

pytestmark = pytest.mark.usefixtures("crd")


@pytest.mark.proves("operations.md#notifications/a-target")
def test_a_job_is_told_of_once_whoever_leads(
    api_server: ApiServer, kube_config: KubeConfig, namespace: str, tmp_path: Path
) -> None:
    with receiving() as receiver:
        (tmp_path / "url").write_text(receiver.url)
        target = {"name": "team", "urlFile": str(tmp_path / "url"), "default": True}
        settings = {"notification_targets": json.dumps([target])}

        async def body(testbed: Testbed) -> None:
            receiver.open.clear()
            first = await start(api_server.kubeconfig, namespace, "one", **settings)
            try:
                await testbed.submit(job("ends", task("work", run_for="0")))
                # It has been sent, nobody has heard of the answer, and the leader dies.
                await wait_until_async(lambda: told(receiver) == ["ends Succeeded"])
            finally:
                await end(first, signal.SIGKILL)
            receiver.open.set()
            assert list((await testbed.status("ends"))["notified"]) == ["Succeeded"]
            # Nobody holds it any more; it would take fifteen seconds to expire.
            await testbed.client.delete(LEASES, "di-operator", namespace)
            second = await start(api_server.kubeconfig, namespace, "two", **settings)
            try:
                failing = task("work", run_for="0", exit_code="1")
                await testbed.submit(job("fails", failing, backoffLimit=0))
                both = ["ends Succeeded", "fails Failed"]
                await wait_until_async(lambda: told(receiver)[:2] == both)
            finally:
                await end(second, signal.SIGTERM)
            assert told(receiver) == both

        on_testbed(kube_config, namespace, body)


def told(receiver: Receiver) -> list[str]:
    return [f"{sent['name']} {sent['event']}" for _, sent in receiver.got]
