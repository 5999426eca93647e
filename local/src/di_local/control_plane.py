"""The API and the operator of one run, in this process."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from aiohttp import web

from di_kube.config import KubeConfig
from di_kube.resources import CONFIGMAPS, SECRETS
from di_local.addresses import Network
from di_local.api.admission import admit
from di_local.api.http import Api, Logs
from di_local.api.objects import Object, Objects
from di_local.api.refused import Refused
from di_local.api.tokens import AUDIENCE, Tokens
from di_operator import main as operator
from di_operator.config import load_config as operator_config
from di_operator.process.clock import SystemClock

_NAMESPACE: Final = "di-system"
_END_SECONDS: Final = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlPlane:
    """The running control plane.

    Attributes:
        kube: configuration of the API's clients.
        failed: done once the operator has ended, which it never does by itself.
    """

    objects: Objects
    tokens: Tokens
    kube: KubeConfig
    failed: asyncio.Task[None]


class StoredSources:
    """The store as source of volumes."""

    def __init__(self, objects: Objects, tokens: Tokens) -> None:
        self._objects = objects
        self._tokens = tokens

    def config_map(self, namespace: str, name: str) -> Object | None:
        """Return the ConfigMap, if it exists."""
        return self._get(CONFIGMAPS, namespace, name)

    def secret(self, namespace: str, name: str) -> Object | None:
        """Return the Secret, if it exists."""
        return self._get(SECRETS, namespace, name)

    def token(self, pod: Mapping[str, Any]) -> str:
        """Return the pod's token for di-server."""
        return self._tokens.issue(pod)

    def _get(self, resource: Any, namespace: str, name: str) -> Object | None:
        try:
            return self._objects.get(resource, namespace, name)
        except Refused:
            return None


@asynccontextmanager
async def control_plane(network: Network, *, logs: Logs) -> AsyncIterator[ControlPlane]:
    """Run the control plane; `logs` responds with the log of a pod."""
    tokens = Tokens()
    objects = Objects(now=lambda: datetime.now(UTC), admit=admit)
    api = Api(objects, tokens, logs=logs)
    # Running requests end with the watches, which `end` ends.
    runner = web.AppRunner(api.app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    await web.TCPSite(runner, network.server, 0).start()
    url = f"http://{network.server}:{runner.addresses[0][1]}"
    kube = KubeConfig(server=url, authorization=lambda: f"Bearer {tokens.owner}")
    stop = asyncio.Event()
    working = asyncio.create_task(_operate(network, kube, stop))
    try:
        yield ControlPlane(objects=objects, tokens=tokens, kube=kube, failed=working)
    finally:
        stop.set()
        await asyncio.wait([working], timeout=_END_SECONDS)
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
        api.end()
        await runner.cleanup()


async def _operate(network: Network, kube: KubeConfig, stop: asyncio.Event) -> None:
    config = operator_config(
        [],
        {
            "DI_OPERATOR_NAMESPACE": _NAMESPACE,
            "DI_OPERATOR_SERVER_URL": network.server_url,
            "DI_OPERATOR_COORDINATED_SERVER_URL": network.server_url,
            "DI_OPERATOR_TOKEN_AUDIENCE": AUDIENCE,
            "DI_OPERATOR_JOB_SECRETS": "di-job-secrets",
            "DI_OPERATOR_LEADER_ELECT": "false",
            "DI_OPERATOR_HEALTH_BIND": f"{network.server}:0",
        },
        random_identity=lambda: "local",
    )
    await operator.operate(
        config=config, kube=kube, clock=SystemClock(), rng=random.Random(), stop=stop
    )
