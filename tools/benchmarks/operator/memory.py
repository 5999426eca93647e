"""What finished jobs with five pods each cost the operator and `di list`, by their number."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import ssl
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypedDict

import aiohttp
import yaml

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

Object = dict[str, Any]
REPLICAS = 5
SIZES = (100, 1_000, 10_000)
"""Numbers of jobs; a hundred thousand take a quiet machine some ten minutes."""
# Seconds; the poll of a real operator comes every minute.
_SYNC_PERIOD = 5
_POLLS = 2
_DEADLINE = 900.0
_SAMPLE = "sample-000000"
_LIFETIME = timedelta(days=1)


class MemoryResult(TypedDict):
    """`filled_seconds` is from the start of the process until it was ready, `filled_cpu_seconds`
    its processor time until then. Memory was looked at then, and at its peak after two polls;
    `poll_cpu_seconds` is the processor time of a poll. `list_cpu_seconds` and `list_mib` are of
    one `di list`."""

    jobs: int
    pods: int
    filled_seconds: float
    filled_cpu_seconds: float
    filled_mib: float
    peak_mib: float
    poll_cpu_seconds: float
    list_cpu_seconds: float
    list_mib: float


async def measure(testbed: Testbed, sizes: Sequence[int], logs: Path) -> list[MemoryResult]:
    """Let one job end for a sample, then show the operator so many copies of it, size by size."""
    async with session(testbed, OPERATOR, replicas=REPLICAS) as trial:
        await trial.create(_SAMPLE, REPLICAS, run_for=0.0)
        await trial.until_finished(_SAMPLE)
        await trial.settled()
        job = await testbed.client.get(DIJOBS, _SAMPLE, trial.namespace)
        pods, _ = await testbed.client.list(
            PODS, trial.namespace, label_selector=f"{LABEL_JOB}={_SAMPLE}"
        )
    return [await _with_copies(job, pods, copies, logs) for copies in sizes]


async def _with_copies(
    job: Object, pods: Sequence[Object], copies: int, logs: Path
) -> MemoryResult:
    load = SyntheticLoad(job, pods, copies)
    authority = Authority.create("load", now=datetime.now(UTC), lifetime=_LIFETIME)
    folder = logs / f"load-{copies}"
    folder.mkdir()
    with held_port() as port:
        async with load.serve(_served_by(authority, folder)) as url:
            account = Account.kept(
                folder / "account", server=url, authority=authority.certificate_pem, token="none"
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
            log = folder / "operator.log"
            async with processes.running(command, log=log, environment=environment) as child:
                await wait_until_async(
                    lambda: _is_ready(port), _DEADLINE, what=f"a filled operator, see {log}"
                )
                filled, memory = time.monotonic() - began, processes.memory_mib(child.pid)
                cpu = processes.cpu_seconds(child.pid)
                await wait_until_async(
                    lambda: load.lists[PODS.plural] >= _POLLS, _DEADLINE, what="two polls"
                )
                # The last page is out, but not yet compared with the cache.
                await asyncio.sleep(_SYNC_PERIOD)
                polled = processes.cpu_seconds(child.pid) - cpu
                polls = load.lists[PODS.plural]
                peak = processes.peak_memory_mib(child.pid)
            listing = await _listed(url, folder, authority)
    found: MemoryResult = {
        "jobs": copies,
        "pods": copies * len(pods),
        "filled_seconds": round(filled, 2),
        "filled_cpu_seconds": round(cpu, 2),
        "filled_mib": memory,
        "peak_mib": peak,
        "poll_cpu_seconds": round(polled / polls, 3),
        "list_cpu_seconds": round(listing.ru_utime + listing.ru_stime, 2),
        "list_mib": round(listing.ru_maxrss / 1024, 1),
    }
    # A later size may fail on a busy machine.
    (folder / "result.json").write_text(json.dumps(found))
    return found


async def _listed(url: str, folder: Path, authority: Authority) -> resource.struct_rusage:
    """Run `di list` of all namespaces; returns what it used."""
    (folder / "ca.crt").write_bytes(authority.certificate_pem)
    cluster = {"server": url, "certificate-authority": str(folder / "ca.crt")}
    kubeconfig = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "load",
        "clusters": [{"name": "load", "cluster": cluster}],
        "users": [{"name": "load", "user": {"token": "none"}}],
        "contexts": [{"name": "load", "context": {"cluster": "load", "user": "load"}}],
    }
    (folder / "kubeconfig").write_text(yaml.safe_dump(kubeconfig))
    program = str(Path(sys.executable).with_name("di"))
    environment = {**os.environ, "KUBECONFIG": str(folder / "kubeconfig")}
    with (folder / "list.txt").open("wb") as output:
        pid = os.posix_spawn(
            program,
            [program, "list", "--all-namespaces"],
            environment,
            file_actions=[(os.POSIX_SPAWN_DUP2, output.fileno(), 1)],
        )
    _, status, usage = await asyncio.to_thread(os.wait4, pid, 0)
    if status:
        raise RuntimeError(f"di list failed, see {folder}/list.txt")
    return usage


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
