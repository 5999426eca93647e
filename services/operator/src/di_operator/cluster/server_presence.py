"""Tracks since when di-server has been able to write reports of jobs, by a check every few seconds.

Operator and server meet only at the API server. The check covers both: the API server responds, and
the status of di-server's Deployment shows a ready replica.
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

PERIOD: Final = 10.0
"""Seconds between two checks."""
RETRY: Final = 2.5
"""Seconds between a failed check and the next one, so that one failure is no outage."""
PATIENCE: Final = 20.0
"""Seconds without a successful check after which reports count as impossible. Programs report again
after a shorter failure, which must not keep a job from ever being judged.
"""
# No job has this name (names have 63 characters at most), so the list is empty.
_NOBODY: Final = f"metadata.name={'x' * 64}"


class ServerPresence:
    """Remembers since when reports are possible; unknown until the first check.

    `deployment` is that of di-server in the operator's namespace. None: di-server runs elsewhere,
    and only the API server is checked, by a list of jobs in `watched` (None: all namespaces).
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
        """Return since when reports are possible, by the API server's clock; None: they are not
        possible now.
        """
        return None if self._is_away() else self._since

    async def run(self) -> None:
        """Check until cancelled."""
        while True:
            if can_come := await self._can_come():
                if self._is_away():
                    self._since = self._clock.now()
                self._answered = self._clock.monotonic()
            await self._clock.sleep(PERIOD if can_come else RETRY)

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
