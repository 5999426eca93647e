"""What every measurement stands on: a fresh control plane with a fake node, and room on it."""

from __future__ import annotations

import itertools
import json
import secrets
import shutil
import sys
import uuid
from asyncio.subprocess import Process
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar, Final

import aiohttp

from di_cluster.cluster import Cluster
from di_cluster.reporter import Reporter
from di_kube.client import KubeClient
from di_kube.config import load_config
from di_kube.errors import ApiError
from di_kube.resources import DIJOBS, NAMESPACES, NODES, SERVICE_ACCOUNTS
from tests.fakes.kubelet import NODE
from tests.ports import held_port
from tests.waiting import wait_until_async
from tools.benchmarks import counters, processes, workloads
from tools.benchmarks.account import Account, account
from tools.benchmarks.counters import Request
from tools.benchmarks.definitions import apply_definition
from tools.benchmarks.rival import PYTORCHJOB, Rival
from tools.benchmarks.workloads import DIJOB, JobType

CRD_FILE = processes.ROOT / "charts/di-orchestrator/files/dijobs-crd.yaml"
OPERATOR, RIVAL, CEILING = "operator", "rival", "ceiling"
JOB_TYPES: Final[Mapping[str, JobType]] = {OPERATOR: DIJOB, RIVAL: PYTORCHJOB, CEILING: DIJOB}
"""What the candidates run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A running operator, or another program in its place, of which no metrics are read."""

    process: Process
    port: int
    log: Path

    @property
    def pid(self) -> int:
        return self.process.pid

    def require_alive(self) -> None:
        """Raise RuntimeError, with the place of its log, if it has ended."""
        if self.process.returncode is not None:
            raise RuntimeError(f"{self.process.pid} has ended: see {self.log}")

    async def requests(self) -> Counter[Request]:
        """Requests it has made so far, by its own count; the operator only."""
        url = f"http://127.0.0.1:{self.port}/metrics"
        async with aiohttp.ClientSession() as session, session.get(url) as answer:
            return counters.of_client(await answer.text())


class Testbed:
    """A control plane that nobody else uses."""

    __test__: ClassVar[bool] = False  # no class of tests, whatever its name begins with

    def __init__(
        self, *, cluster: Cluster, client: KubeClient, account: Account, logs: Path
    ) -> None:
        self.client = client
        self._account = account
        self._cluster = cluster
        self._rival: Rival | None = None
        self.kubeconfig = cluster.kubeconfig
        self.kubectl = cluster.binary("kubectl")
        self.host_address = cluster.host_address
        self._logs = logs
        self._numbers = itertools.count(1)
        self.pids = {one.name: one.pid for one in cluster.status() if one.pid is not None}

    async def namespace(self) -> str:
        """A fresh namespace in which pods can be created."""
        name = f"bench-{next(self._numbers)}"
        await self.client.create(NAMESPACES, {"metadata": {"name": name}})

        async def is_ready() -> bool:
            try:
                await self.client.get(SERVICE_ACCOUNTS, "default", name)
                await self.client.list(DIJOBS, name)
            except ApiError:
                return False
            return True

        await wait_until_async(is_ready, what=f"namespace {name}")
        return name

    @asynccontextmanager
    async def kubelet(self) -> AsyncIterator[Process]:
        """The fake node, in a process of its own."""
        command = [sys.executable, "-m", "tests.fakes.kubelet", str(self.kubeconfig)]
        async with processes.running(command, log=self._logs / "kubelet.log") as child:

            async def is_there() -> bool:
                assert child.returncode is None, f"see {self._logs}/kubelet.log"
                try:
                    await self.client.get(NODES, NODE)
                except ApiError:
                    return False
                return True

            await wait_until_async(is_there, what="the fake node")
            self.pids["kubelet"] = child.pid
            yield child
            del self.pids["kubelet"]

    @asynccontextmanager
    async def candidate(
        self,
        kind: str,
        namespace: str,
        *,
        replicas: int,
        holds: Path | None = None,
        settings: Mapping[str, str] = MappingProxyType({}),
    ) -> AsyncIterator[Candidate]:
        """Run a candidate for a namespace; the operator with further settings.

        It is ready when its first job is done; `replicas` is what the bare client
        is to be prepared for. With `holds` the operator records there how long its loop was held.
        `settings` are further variables of the operator.
        """
        environment = {}
        with held_port() as port:
            if kind == OPERATOR:
                command = [str(Path(sys.executable).with_name("di-operator"))]
                if holds is not None:
                    holds.touch()
                    command = [sys.executable, "-m", "tools.benchmarks.operator.holds", str(holds)]
                environment = {
                    "DI_OPERATOR_NAMESPACE": namespace,
                    "DI_OPERATOR_WATCH_NAMESPACE": namespace,
                    "DI_OPERATOR_HEALTH_BIND": f"127.0.0.1:{port}",
                    "DI_OPERATOR_IDENTITY": "benchmark",
                    **settings,
                }
            elif kind == RIVAL:
                rival = await self._installed_rival()
                command = [*rival.command(namespace, port)]
            else:
                sample = workloads.job("rehearsal-000000", replicas)
                sample["metadata"] |= {"namespace": namespace, "uid": str(uuid.uuid4())}
                path = self._logs / f"rehearsal-{replicas}.json"
                path.write_text(json.dumps(sample))
                module = "tools.benchmarks.ceiling"
                command = [sys.executable, "-m", module, namespace, str(path)]
            log = self._logs / f"{kind}-{namespace}.log"
            command = self._account.command(command)
            environment = {**self._account.environment, **environment}
            async with processes.running(command, log=log, environment=environment) as child:
                if kind == RIVAL:
                    await rival.mount_secret()
                yield Candidate(process=child, port=port, log=log)

    async def _installed_rival(self) -> Rival:
        if self._rival is None:
            folder = self._logs / "rival-certificates"
            self._rival = await Rival.installed(self._cluster, self.client, folder)
        return self._rival


@asynccontextmanager
async def control_plane(logs: Path, *, quiet: bool = False) -> AsyncIterator[Testbed]:
    """A control plane with the CRD, gone afterwards; `logs` holds only what is new."""
    shutil.rmtree(logs, ignore_errors=True)
    logs.mkdir(parents=True)
    cluster = Cluster(
        f"bench-{secrets.token_hex(3)}",
        profile="control-plane",
        reporter=Reporter(None if quiet else sys.stderr),
    )
    try:
        cluster.up()
        async with AsyncExitStack() as stack:
            config = load_config(str(cluster.kubeconfig))
            client = await stack.enter_async_context(KubeClient(config=config, timeout=60))
            await apply_definition(client, CRD_FILE)
            identity = await stack.enter_async_context(account(client, config, logs / "account"))
            yield Testbed(cluster=cluster, client=client, account=identity, logs=logs)
    finally:
        cluster.down(purge=True)
