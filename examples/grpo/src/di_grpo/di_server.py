"""The REST server of DIJobs, as the pods of a job ask it."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from di_grpo.client import Unreachable, exchange
from di_grpo.peers import Peers

log = logging.getLogger(__name__)

ATTEMPTS = 3
HEARTBEAT_SECONDS = 10.0
"""After which a member repeats what it says."""
BUSY = (429, 503)
"""Answers after which the same request may be taken."""


class DIServer:
    """One job at di-server; `run` is of this process alone, for its Idempotency-Keys."""

    def __init__(self, *, peers: Peers, run: str) -> None:
        self._job = f"{peers.server_url}/v2alpha1/job/{peers.job_id}"
        self._token_file = peers.token_file
        self._ca_file = peers.ca_file
        self._run = run
        self._requests = 0

    def scale(self, task: str, change: int) -> int | None:
        """Add (or remove) replicas; how many there are to be now, None if nothing changed.

        A request that may have been lost is sent again under the same key, so it acts once.
        """
        self._requests += 1
        key = {"Idempotency-Key": f"{self._run}-{self._requests}"}
        method = "POST" if change > 0 else "DELETE"
        body = {"task": task, "replicas": abs(change)}
        said = self._call(method, "replicas", body, key, attempts=ATTEMPTS)
        return None if said is None else int(said["data"]["replicas"])

    def report(self, profilings: Mapping[str, Any]) -> None:
        """Publish what was measured in the job's status; a lost report does no harm."""
        self._call("POST", "profilings", profilings, {}, attempts=1)

    def say(self, pod: str, entry: Mapping[str, Any]) -> None:
        """Put what a pod says of itself on the board; one that is lost is repeated."""
        self._call("PUT", f"members/{pod}", entry, {}, attempts=1)

    def members(self, task: str) -> dict[str, dict[str, Any]]:
        """What the pods of a task say of themselves, by pod; nothing if nobody answers."""
        said = self._call("GET", f"members?task={task}", None, {}, attempts=1)
        if said is None:
            return {}
        return {member["pod"]: member["says"] for member in said["data"]["members"]}

    def _call(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None,
        headers: dict[str, str],
        *,
        attempts: int,
    ) -> dict[str, Any] | None:
        if self._token_file:
            # Read each time: the kubelet renews the token while the pod runs.
            headers = {**headers, "Authorization": f"Bearer {Path(self._token_file).read_text()}"}
        for _ in range(attempts):
            try:
                answer = exchange(
                    method,
                    f"{self._job}/{path}",
                    None if body is None else json.dumps(body).encode(),
                    headers={"Content-Type": "application/json", **headers},
                    ca_file=self._ca_file,
                )
            except Unreachable as error:
                log.warning("di-server: %s", error)
                continue
            if answer.code == 200:
                said: dict[str, Any] = json.loads(answer.body)
                return said
            log.warning("di-server: %s %s: %s", method, path, answer.body.decode(errors="replace"))
            if answer.code not in BUSY:
                break
        return None
