"""Asking di-server for collectors, and when to ask."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from di_cartpole.client import Unreachable, call
from di_cartpole.peers import Peers

log = logging.getLogger(__name__)

EXTRA = 2
"""How many collectors the learner asks for."""
WAITING = 0.5
"""Share of its time that the learner must have waited for trials before it asks."""
WARM_UP_GENERATIONS = 5
"""Generations to measure before the first request: the first ones wait for pods to start."""
NEARLY_SOLVED = 400.0
"""Mean return from which the last moves need few trials: the extra collectors go back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """What the decision looks at."""

    generation: int
    wait_fraction: float
    mean_return: float
    extra: int


def wanted_change(progress: Progress) -> int:
    """How many collectors to ask for (positive), give back (negative), or neither (0)."""
    if progress.extra:
        return -progress.extra if progress.mean_return >= NEARLY_SOLVED else 0
    if progress.generation < WARM_UP_GENERATIONS or progress.mean_return >= NEARLY_SOLVED:
        return 0
    return EXTRA if progress.wait_fraction >= WAITING else 0


class DIServer:
    """The REST server of DIJobs, as one job's coordinator sees it."""

    def __init__(self, *, peers: Peers, run: str) -> None:
        self._job = f"{peers.server_url}/v2alpha1/job/{peers.job_id}"
        self._token_file = peers.token_file
        self._ca_file = peers.ca_file
        self._run = run
        self._requests = 0

    def scale(self, change: int) -> bool:
        """Add (or remove) collectors; True when di-server has written the change.

        A request that may have been lost is sent again under the same key, so it acts once.
        """
        self._requests += 1
        key = {"Idempotency-Key": f"{self._run}-{self._requests}"}
        method = "POST" if change > 0 else "DELETE"
        body = {"task": "collector", "replicas": abs(change)}
        for attempt in range(3):
            if self._call(method, "replicas", body, key, attempt=attempt) is not None:
                return True
        return False

    def report(self, profilings: Mapping[str, Any]) -> None:
        """Publish measured progress into the job's status; a lost report does no harm."""
        self._call("POST", "profilings", profilings, {}, attempt=0)

    def _call(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any],
        headers: dict[str, str],
        *,
        attempt: int,
    ) -> dict[str, Any] | None:
        if self._token_file:
            # Read each time: the kubelet renews the token while the pod runs.
            headers = {**headers, "Authorization": f"Bearer {Path(self._token_file).read_text()}"}
        try:
            return call(method, f"{self._job}/{path}", body, headers=headers, ca_file=self._ca_file)
        except Unreachable as error:
            log.warning("di-server did not accept a request (attempt %d): %s", attempt + 1, error)
            return None
