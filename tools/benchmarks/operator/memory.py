"""What the operator holds of ten thousand finished jobs with fifty thousand pods."""

from __future__ import annotations

import asyncio
import ssl
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypedDict

import aiohttp

from di_api.names import LABEL_JOB
from di_certs.authority import Authority
from di_kube.resources import DIJOBS, PODS
from tests.ports import held_port
from tests.waiting import wait_until_async
from tools.benchmarks import processes
from tools.benchmarks.account import Account
from tools.benchmarks.servers.synthetic_load import SyntheticLoad
from tools.benchmarks.session import session
from tools.benchmarks.testbed import OPERATOR, Testbed

REPLICAS = 5
# Seconds; the poll of a real operator comes every minute.
_SYNC_PERIOD = 5
_POLLS = 2
_DEADLINE = 300.0
_SAMPLE = "sample-000000"
_LIFETIME = timedelta(days=1)


class MemoryResult(TypedDict):
    """`filled_seconds` is from the start of the process until it was ready. Memory was looked at
    then, and at its peak after two polls."""

    jobs: int
    pods: int
    filled_seconds: float
    filled_mib: float
    peak_mib: float


async def measure(testbed: Testbed, jobs: int, logs: Path) -> MemoryResult:
    """Let one job end for a sample, then show the operator copies of it."""
    async with session(testbed, OPERATOR, replicas=REPLICAS) as trial:
        await trial.create(_SAMPLE, REPLICAS, run_for=0.0)
        await trial.until_finished(_SAMPLE)
        await trial.settled()
        job = await testbed.client.get(DIJOBS, _SAMPLE, trial.namespace)
        pods, _ = await testbed.client.list(
            PODS, trial.namespace, label_selector=f"{LABEL_JOB}={_SAMPLE}"
        )
    load = SyntheticLoad(job, pods, jobs)
    authority = Authority.create("load", now=datetime.now(UTC), lifetime=_LIFETIME)
    with held_port() as port:
        async with load.serve(_served_by(authority, logs)) as url:
            account = Account.kept(
                logs / "load", server=url, authority=authority.certificate_pem, token="none"
            )
            environment = {
                **account.environment,
                "DI_OPERATOR_NAMESPACE": "default",
                "DI_OPERATOR_WATCH_NAMESPACE": "",
                "DI_OPERATOR_HEALTH_BIND": f"127.0.0.1:{port}",
                "DI_OPERATOR_LEADER_ELECT": "false",
                "DI_OPERATOR_SYNC_PERIOD": str(_SYNC_PERIOD),
            }
            command = account.command([str(Path(sys.executable).with_name("di-operator"))])
            began = time.monotonic()
            log = logs / "operator-load.log"
            async with processes.running(command, log=log, environment=environment) as child:
                await wait_until_async(
                    lambda: _is_ready(port), _DEADLINE, what=f"a filled operator, see {log}"
                )
                filled, memory = time.monotonic() - began, processes.memory_mib(child.pid)
                await wait_until_async(
                    lambda: load.lists[PODS.plural] >= _POLLS, _DEADLINE, what="two polls"
                )
                # The last page is out, but not yet compared with the cache.
                await asyncio.sleep(_SYNC_PERIOD)
                peak = processes.peak_memory_mib(child.pid)
    return {
        "jobs": jobs,
        "pods": jobs * len(pods),
        "filled_seconds": round(filled, 2),
        "filled_mib": memory,
        "peak_mib": peak,
    }


async def _is_ready(port: int) -> bool:
    try:
        async with (
            aiohttp.ClientSession() as http,
            http.get(f"http://127.0.0.1:{port}/readyz") as answer,
        ):
            return answer.status == 200
    except aiohttp.ClientError:
        return False


def _served_by(authority: Authority, folder: Path) -> ssl.SSLContext:
    pair = authority.issue(
        "server", now=datetime.now(UTC), lifetime=_LIFETIME, hosts=["127.0.0.1"], server=True
    )
    file = folder / "load.pem"
    file.write_bytes(pair.certificate_pem + pair.private_key_pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    return context
