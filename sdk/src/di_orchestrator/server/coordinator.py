"""Client for a job with a coordinator (DI-engine's v1): its collectors and learners."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from di_orchestrator.errors import NotInJob
from di_orchestrator.server.client import Send, run
from di_orchestrator.server.exchange import Clock, Patience, Request, ask
from di_orchestrator.server.transport import Transport

SECONDS = 35.0
"""Timeout of a request in seconds; di-server itself retries for half a minute before it refuses a
coordinator temporarily.
"""
_PATH = "/v1alpha1/replicas"


@dataclass(frozen=True)
class Replicas:
    """Addresses, `<pod>.<namespace>:<port>`, starting replicas included."""

    collectors: tuple[str, ...]
    learners: tuple[str, ...]


class Coordinator:
    """A coordinator's requests to di-server. Every method can raise `Refused` and `Unreachable`.

    A request that adds or removes is sent once: if its response is lost it may have taken effect,
    which `replicas` shows.

    Args:
        namespace, pod: of the coordinator.
    """

    def __init__(
        self,
        send: Send,
        *,
        namespace: str,
        pod: str,
        patience: Patience | None = None,
        clock: Clock = time.monotonic,
    ) -> None:
        self._send = send
        self._me = {"namespace": namespace, "coordinator": pod}
        self._patience = patience or Patience()
        self._clock = clock

    @classmethod
    def of(cls, environment: Mapping[str, str], *, seconds: float = 60.0) -> Coordinator:
        """Return the coordinator of the pod with these variables.

        Args:
            seconds: how long a request is retried before `Unreachable`.

        Raises:
            NotInJob: one of the variables is missing.
        """
        transport = Transport.of(environment, url="KUBERNETES_SERVER_URL")
        names = [environment.get(f"KUBERNETES_POD_{key}") for key in ("NAMESPACE", "NAME")]
        if transport is None or not all(names):
            raise NotInJob(
                "KUBERNETES_SERVER_URL, KUBERNETES_POD_NAMESPACE and KUBERNETES_POD_NAME are set "
                "in pods of a DIJob with a coordinator, and are not here: submit it as one"
            )
        namespace, pod = map(str, names)
        patience = Patience(seconds)
        return cls(transport.send, namespace=namespace, pod=pod, patience=patience)

    def replicas(self) -> Replicas:
        """Return all replicas, starting ones included."""
        return self._run(Request("GET", _PATH, self._me, seconds=SECONDS))

    def add(
        self,
        *,
        collectors: int = 0,
        learners: int = 0,
        resources: Mapping[str, str | int] | None = None,
    ) -> Replicas:
        """Request more replicas; return their future addresses.

        Args:
            resources: of each of them: `cpus`, `memory`, `gpus`.
        """
        wanted = {
            role: {"replicas": count, **(resources or {})}
            for role, count in (("collectors", collectors), ("learners", learners))
            if count
        }
        return self._change("POST", _PATH, wanted)

    def drop(self, *, collectors: int = 0, learners: int = 0) -> Replicas:
        """Remove the newest replicas; return the addresses of the removed ones."""
        counts = {"collectors": collectors, "learners": learners}
        gone = {role: {"replicas": count} for role, count in counts.items() if count}
        return self._change("DELETE", _PATH, gone)

    def replace(self, *, collectors: Sequence[str] = (), learners: Sequence[str] = ()) -> Replicas:
        """Report pods as failed, by name; return the addresses of their successors."""
        body = {**self._me, "collectors": list(collectors), "learners": list(learners)}
        # Names that are already gone are skipped, so the request can be repeated.
        return self._run(Request("POST", f"{_PATH}/failed", body=body, seconds=SECONDS))

    def _change(self, method: str, path: str, wanted: Mapping[str, Any]) -> Replicas:
        request = Request(method, path, body={**self._me, **wanted}, seconds=SECONDS)
        return self._run(request, repeatable=False)

    def _run(self, request: Request, *, repeatable: bool = True) -> Replicas:
        asked = ask(request, _replicas, self._patience, self._clock, repeatable=repeatable)
        return run(asked, self._send)


def _replicas(found: Mapping[str, Any]) -> Replicas:
    return Replicas(tuple(found["collectors"]), tuple(found["learners"]))
