"""A job with a coordinator (DI-engine's v1): its collectors and learners, one by one."""

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
"""di-server itself tries for half a minute before it refuses a coordinator for now."""
_PATH = "/v1alpha1/replicas"


@dataclass(frozen=True)
class Replicas:
    """Addresses, `<pod>.<namespace>:<port>`; also of those that are starting."""

    collectors: tuple[str, ...]
    learners: tuple[str, ...]


class Coordinator:
    """What a coordinator asks of di-server. Every method may raise `Refused` and `Unreachable`.

    What adds or removes is sent once: when its answer is lost it may have taken effect, and
    `replicas` tells.

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
        """The coordinator that runs in the pod with these variables.

        Args:
            seconds: how long a request is tried until it is `Unreachable`.

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
        """Those that there are, and those that are starting."""
        return self._run(Request("GET", _PATH, self._me, seconds=SECONDS))

    def add(
        self,
        *,
        collectors: int = 0,
        learners: int = 0,
        resources: Mapping[str, str | int] | None = None,
    ) -> Replicas:
        """Ask for more; returns the addresses that they will have.

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
        """Give back the newest; returns the addresses of those that go."""
        counts = {"collectors": collectors, "learners": learners}
        gone = {role: {"replicas": count} for role, count in counts.items() if count}
        return self._change("DELETE", _PATH, gone)

    def replace(self, *, collectors: Sequence[str] = (), learners: Sequence[str] = ()) -> Replicas:
        """Report pods as failed, by name; returns the addresses of their successors."""
        body = {**self._me, "collectors": list(collectors), "learners": list(learners)}
        # Those that are gone already are skipped, so it may be repeated.
        return self._run(Request("POST", f"{_PATH}/failed", body=body, seconds=SECONDS))

    def _change(self, method: str, path: str, wanted: Mapping[str, Any]) -> Replicas:
        request = Request(method, path, body={**self._me, **wanted}, seconds=SECONDS)
        return self._run(request, repeatable=False)

    def _run(self, request: Request, *, repeatable: bool = True) -> Replicas:
        asked = ask(request, _replicas, self._patience, self._clock, repeatable=repeatable)
        return run(asked, self._send)


def _replicas(found: Mapping[str, Any]) -> Replicas:
    return Replicas(tuple(found["collectors"]), tuple(found["learners"]))
