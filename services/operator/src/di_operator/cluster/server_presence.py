"""Since when di-server can write what jobs report: asked of the API server every few seconds.

Operator and server meet only there. What is asked is both at once: whether the API server answers,
and whether a replica of di-server is ready, by the status of its Deployment.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

import structlog

from di_kube.client import KubeClient
from di_kube.errors import ApiError
from di_kube.resources import DEPLOYMENTS, DIJOBS
from di_operator.process.clock import Clock

log = structlog.get_logger(__name__)

PERIOD: Final = 5.0
"""Seconds between two questions."""
PATIENCE: Final = 20.0
"""Seconds without a good answer after which reports cannot have come. Less is a hiccup, after which
programs report again; it must not keep a job from ever being judged."""
# No job has this name (names are no longer than 63), so nothing is sent back.
_NOBODY: Final = f"metadata.name={'x' * 64}"


class ServerPresence:
    """Remembers since when reports can come; one that has just begun to ask knows of none before.

    `deployment` is that of di-server, in the namespace of the operator; None: somebody else runs
    it, and only the API server is asked, for jobs of `watched` (None: all namespaces).
    """

    def __init__(
        self,
        client: KubeClient,
        *,
        namespace: str,
        deployment: str | None,
        watched: str | None,
        clock: Clock,
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._deployment = deployment
        self._watched = watched
        self._clock = clock
        self._since: datetime | None = None
        self._answered = 0.0

    def __call__(self) -> datetime | None:
        """Since when reports can come, by the API server's clock; None: they cannot now."""
        return None if self._is_away() else self._since

    async def run(self) -> None:
        """Ask until cancelled."""
        while True:
            if await self._can_come():
                if self._is_away():
                    self._since = self._clock.now()
                self._answered = self._clock.monotonic()
            await self._clock.sleep(PERIOD)

    def _is_away(self) -> bool:
        return self._since is None or self._clock.monotonic() - self._answered > PATIENCE

    async def _can_come(self) -> bool:
        try:
            if self._deployment is None:
                await self._client.list(DIJOBS, self._watched, field_selector=_NOBODY)
                return True
            found = await self._client.get(DEPLOYMENTS, self._deployment, self._namespace)
        except ApiError as error:
            log.warning("not known whether reports can come", error=str(error))
            return False
        return bool((found.get("status") or {}).get("readyReplicas"))
