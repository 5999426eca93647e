"""Several replicas, replicas that die, and replicas that are told to stop."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
from asyncio.subprocess import PIPE, Process
from datetime import datetime, timedelta
from pathlib import Path
from typing import Protocol

import aiohttp
import pytest
from typing_extensions import override

from di_kube.config import KubeConfig
from di_kube.resources import LEASES
from di_operator.process.clock import SystemClock
from di_operator.process.lease_state import NotLeading
from tests.integration.operator_testbed import Testbed, job, on_testbed, task, with_testbed
from tests.waiting import DEADLINE

pytestmark = pytest.mark.usefixtures("crd")


class ApiServer(Protocol):
    @property
    def kubeconfig(self) -> Path: ...


async def start(kubeconfig: Path, namespace: str, identity: str, **variables: str) -> Process:
    """Run `di-operator` as a process; its log is read so that the pipe never fills.

    `variables` are more of its settings, DI_OPERATOR_* without the prefix, in lower case.
    """
    return await asyncio.create_subprocess_exec(
        Path(sys.executable).with_name("di-operator"),
        env={
            "PATH": os.environ["PATH"],
            "KUBECONFIG": str(kubeconfig),
            "DI_OPERATOR_NAMESPACE": namespace,
            "DI_OPERATOR_WATCH_NAMESPACE": namespace,
            "DI_OPERATOR_IDENTITY": identity,
            "DI_OPERATOR_HEALTH_BIND": "127.0.0.1:0",
            **{f"DI_OPERATOR_{key.upper()}": value for key, value in variables.items()},
        },
        stderr=PIPE,
    )


async def end(process: Process, number: signal.Signals) -> str:
    """Send a signal and wait for the end; returns the log, which a failure shows, too."""
    if process.returncode is None:
        process.send_signal(number)
    _, log = await asyncio.wait_for(process.communicate(), DEADLINE)
    print(log.decode(), file=sys.stderr)
    return log.decode()


async def holder(testbed: Testbed) -> str | None:
    lease = await testbed.client.get(LEASES, "di-operator", testbed.namespace)
    name: str | None = lease["spec"].get("holderIdentity")
    return name


@pytest.mark.proves("operations.md#availability/one-replica-of-any-service")
@with_testbed
async def test_a_leader_told_to_stop_hands_over_within_a_retry(testbed: Testbed) -> None:
    async with testbed.operator("one") as leader:

        async def leads() -> bool:
            return await holder(testbed) == "one"

        await testbed.submit(job("a", task()))
        await testbed.phase("a", "Running")
        assert await leads()
        async with testbed.operator("two"):
            await leader.end()
            assert await holder(testbed) in ("", "two")
            # Far less than a lease's duration would be seen here if it had to run out.
            await testbed.submit(job("b", task()))
            await testbed.phase("b", "Running")
            assert await holder(testbed) == "two"


def test_a_leader_whose_lease_is_taken_exits(kube_config: KubeConfig, namespace: str) -> None:
    async def body(testbed: Testbed) -> None:
        async with testbed.operator("one") as leader:
            await testbed.submit(job("a", task()))
            await testbed.phase("a", "Running")
            await testbed.client.patch(
                LEASES, "di-operator", {"spec": {"holderIdentity": "thief"}}, namespace
            )
            with pytest.raises(NotLeading):
                await asyncio.wait_for(asyncio.shield(leader.task), DEADLINE)
            assert await holder(testbed) == "thief"

    with pytest.raises(NotLeading):
        on_testbed(kube_config, namespace, body)


class WrongClock(SystemClock):
    """The clock of a machine that nobody has set."""

    @override
    def now(self) -> datetime:
        return super().now() + timedelta(hours=1)


@with_testbed
async def test_a_replica_whose_clock_is_wrong_ends_no_job_early(testbed: Testbed) -> None:
    async with testbed.operator("one"):
        await testbed.submit(job("a", task(), activeDeadlineSeconds=600))
        await testbed.phase("a", "Running")
    async with testbed.operator("two", clock=WrongClock()):
        await testbed.patch("a", {"tasks": [task(replicas=2)]})

        async def is_decided() -> bool:
            status = await testbed.status("a")
            return status["replicas"] == 2 and status["phase"] in ("Running", "Failed")

        await testbed.until(is_decided, "the new leader to decide")
        assert (await testbed.status("a"))["phase"] == "Running"


SHOWN = (
    r'di_jobs\{phase="Succeeded"\} 1\.0',
    r'di_operator_actions_total\{action="CreatePod",result="ok"\} 1\.0',
    r"di_operator_leading 1\.0",
    r"di_operator_queue_length \d+\.0",
    r"di_operator_queue_delayed \d+\.0",
    r"di_operator_suspect_nodes 0\.0",
    r'di_operator_reconciles_total\{result="ok"\} [1-9]\d*\.0',
    r"di_operator_reconcile_duration_seconds_count [1-9]\d*\.0",
    r'di_operator_status_writes_total\{result="ok"\} [1-9]\d*\.0',
    r'di_operator_api_requests_total\{code="201",plural="pods",verb="POST"\} 1\.0',
    r'di_operator_cache_objects\{plural="dijobs"\} 1\.0',
    r'di_operator_cache_away_seconds\{plural="dijobs"\} [\d.e-]+',
    r'di_operator_cache_happenings_total\{kind="lists",plural="dijobs"\} [1-9]\d*\.0',
)
"""Lines of the metrics after a job of one pod, as patterns."""


@pytest.mark.proves(
    "metrics.md#operator/di-jobs",
    "metrics.md#operator/di-operator-actions-total",
    "metrics.md#operator/di-operator-leading",
    "metrics.md#operator/di-operator-queue-length",
    "metrics.md#operator/di-operator-queue-delayed",
    "metrics.md#operator/di-operator-suspect-nodes",
    "metrics.md#operator/di-operator-reconciles-total",
    "metrics.md#operator/di-operator-reconcile-duration-seconds",
    "metrics.md#operator/di-operator-status-writes-total",
    "metrics.md#operator/di-operator-api-requests-total",
    "metrics.md#operator/di-operator-cache-objects",
    "metrics.md#operator/di-operator-cache-away-seconds",
    "metrics.md#operator/di-operator-cache-happenings-total",
)
@with_testbed
async def test_health_says_whether_the_caches_are_filled_and_metrics_count(
    testbed: Testbed,
) -> None:
    async with testbed.operator() as replica, aiohttp.ClientSession() as session:
        base = f"http://127.0.0.1:{replica.port}"
        async with session.get(f"{base}/healthz") as answer:
            assert answer.status == 200

        async def is_ready() -> bool:
            async with session.get(f"{base}/readyz") as answer:
                return answer.status == 200

        await testbed.until(is_ready, "the replica to be ready")
        await testbed.submit(job("a", task(run_for="0")))
        await testbed.phase("a", "Succeeded")

        async def is_counted() -> bool:
            async with session.get(f"{base}/metrics") as answer:
                text = await answer.text()
            missing = [each for each in SHOWN if re.search(f"^{each}$", text, re.M) is None]
            return not missing

        await testbed.until(is_counted, "the job to be counted")


def test_a_bad_setting_is_named_and_ends_the_process(api_server: ApiServer) -> None:
    async def main() -> tuple[int | None, str]:
        process = await start(api_server.kubeconfig, "Not_A_Name", "one")
        _, log = await asyncio.wait_for(process.communicate(), DEADLINE)
        return process.returncode, log.decode()

    code, log = asyncio.run(main())
    assert code == 2
    assert "DI_OPERATOR_NAMESPACE='Not_A_Name'" in log
    assert "Traceback" not in log
