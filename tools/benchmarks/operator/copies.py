"""An API server that serves copies of one finished job, and what operators and `di` need there."""

from __future__ import annotations

import ssl
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import yaml

from di_api.names import LABEL_JOB
from di_certs.authority import Authority
from di_kube.resources import DIJOBS, PODS
from tests.waiting import wait_until_async
from tools.benchmarks.account import Account
from tools.benchmarks.processes import running
from tools.benchmarks.servers.synthetic_load import SyntheticLoad
from tools.benchmarks.session import session
from tools.benchmarks.testbed import OPERATOR, Testbed

Object = dict[str, Any]
SYNC_PERIOD = 60
"""Seconds between two polls of an operator, if nothing else is set."""
DEADLINE = 900.0
_SAMPLE = "sample-000000"
_LIFETIME = timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A finished job, and its pods."""

    job: Object
    pods: Sequence[Object]


async def finished_job(testbed: Testbed, replicas: int) -> Sample:
    """Let a job of so many pods end on a real API server."""
    async with session(testbed, OPERATOR, replicas=replicas) as trial:
        await trial.create(_SAMPLE, replicas, run_for=0.0)
        await trial.until_finished(_SAMPLE)
        await trial.settled()
        job = await testbed.client.get(DIJOBS, _SAMPLE, trial.namespace)
        pods, _ = await testbed.client.list(
            PODS, trial.namespace, label_selector=f"{LABEL_JOB}={_SAMPLE}"
        )
    return Sample(job=job, pods=pods)


@dataclass(frozen=True, slots=True, kw_only=True)
class Copies:
    """Copies of a job, served at a URL.

    Attributes:
        folder: for logs and credentials.
    """

    load: SyntheticLoad
    namespace: str
    account: Account
    folder: Path
    kubeconfig: Path

    @asynccontextmanager
    async def operator(
        self, name: str, port: int, *, elects: bool, sync_period: int = SYNC_PERIOD
    ) -> AsyncIterator[Process]:
        """Run an operator from now until the block ends; `port` is that of its health.

        Args:
            name: of its log, and in Leases.
            elects: whether there are others, one of which leads.
            sync_period: seconds between two polls.
        """
        environment = {
            **self.account.environment,
            "DI_OPERATOR_NAMESPACE": "default",
            "DI_OPERATOR_WATCH_NAMESPACE": "",
            "DI_OPERATOR_HEALTH_BIND": f"127.0.0.1:{port}",
            "DI_OPERATOR_IDENTITY": name,
            "DI_OPERATOR_LEADER_ELECT": str(elects).lower(),
            "DI_OPERATOR_SYNC_PERIOD": str(sync_period),
        }
        command = self.account.command([str(Path(sys.executable).with_name("di-operator"))])
        log = self.folder / f"{name}.log"
        async with running(command, log=log, environment=environment) as child:
            yield child

    async def until_ready(self, port: int) -> None:
        """Wait until the caches of the operator at that port are filled."""
        what = f"a filled operator, see {self.folder}"
        await wait_until_async(lambda: _is_ready(port), DEADLINE, what=what)


@asynccontextmanager
async def served(sample: Sample, copies: int, folder: Path) -> AsyncIterator[Copies]:
    """Serve so many copies until the block ends; `folder` is made."""
    folder.mkdir(parents=True)
    load = SyntheticLoad(sample.job, sample.pods, copies)
    authority = Authority.create("load", now=datetime.now(UTC), lifetime=_LIFETIME)
    async with load.serve(_served_by(authority, folder)) as url:
        account = Account.kept(
            folder / "account", server=url, authority=authority.certificate_pem, token="none"
        )
        yield Copies(
            load=load,
            namespace=sample.job["metadata"]["namespace"],
            account=account,
            folder=folder,
            kubeconfig=_kubeconfig(url, authority, folder),
        )


def _kubeconfig(url: str, authority: Authority, folder: Path) -> Path:
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
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump(kubeconfig))
    return path


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
