"""Leader election on a coordination.k8s.io Lease.

Several replicas run and one leads, by the rules of all Kubernetes components, so that `kubectl get
lease` shows the usual fields. The holder renews. A candidate takes over when it has seen no renewal
for a whole lease duration *of its own monotonic clock*. The times in the Lease are never compared
with ours: the clocks of two nodes can differ by an hour.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from random import Random
from typing import Any

import structlog

from di_kube.client import KubeClient
from di_kube.errors import AlreadyExists, ApiError, Conflict, NotFound
from di_kube.resources import LEASES
from di_operator.config import Config
from di_operator.process.clock import Clock
from di_operator.process.lease_state import Loss

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Intervals of the election in seconds.

    A holder that could not renew for `renew_deadline` stops writing; no candidate takes the Lease
    before `lease_duration`. The difference covers a write that was already sent.
    """

    lease_duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0


class Election:
    """Acquires, renews and releases the Lease `namespace/name` for `identity`."""

    def __init__(
        self,
        *,
        client: KubeClient,
        namespace: str,
        name: str,
        identity: str,
        timing: Timing,
        clock: Clock,
        rng: Random,
        loss: Loss,
    ) -> None:
        """`loss` records the loss of the Lease."""
        self._client = client
        self._loss = loss
        self._namespace = namespace
        self._name = name
        self._identity = identity
        self._timing = timing
        self._clock = clock
        self._rng = rng
        self._lease: dict[str, Any] | None = None
        self._observed: tuple[object, ...] | None = None
        self._observed_at = 0.0
        self._renewed_at: float | None = None
        self._tried_at = clock.monotonic()
        # Whether a write that makes the Lease ours has no response yet.
        self._is_writing = False

    @property
    def idle(self) -> float:
        """Return the seconds since the last attempt to acquire or renew the Lease began."""
        return self._clock.monotonic() - self._tried_at

    def holds(self) -> bool:
        """Return whether the Lease is certainly still ours, by the monotonic clock alone.

        A process that was suspended for a minute gets False here before any of its tasks could get
        a response from the API server.
        """
        return (
            self._renewed_at is not None
            and self._clock.monotonic() - self._renewed_at < self._timing.renew_deadline
        )

    def check(self) -> None:
        """Check the Lease; call this before each batch of writes.

        Raises:
            NotLeading: the Lease is not certainly ours any more.
        """
        if not self.holds():
            raise self._loss.declare(f"lease {self._namespace}/{self._name} is not held")

    async def acquire(self) -> None:
        """Try until the Lease is acquired: periodically, and at the moment at which it expires.

        A candidate that sees the last renewal late waits for that much longer. With the default
        timing a failed leader is replaced 16.2 s after its last renewal at the latest.
        """
        while not await self._try():
            await self._clock.sleep(self._pause())
        log.info("leading", lease=self._name, identity=self._identity)

    async def keep(self) -> None:
        """Renew until the Lease is lost.

        Raises:
            NotLeading: another replica holds it, or it could not be renewed in time.
        """
        due = self._clock.monotonic()
        while True:
            # Counted from the start of the last attempt: after one that hung there is no time left.
            due += self._timing.retry_period
            await self._clock.sleep(max(0.0, due - self._clock.monotonic()))
            due = self._clock.monotonic()
            renewed = await self._try()
            if not renewed and (not self.holds() or self._held_by_another()):
                self._renewed_at = None
                raise self._loss.declare(f"lost lease {self._namespace}/{self._name}")

    async def release(self) -> None:
        """Release the Lease, so that another replica leads within a retry period.

        Does nothing if the Lease is not ours, or was released before.
        """
        lease, may_be_ours = self._lease, self.holds() or self._is_writing
        self._renewed_at = None
        if not may_be_ours:
            return
        try:
            # A write that was cancelled after it was sent may have arrived.
            if lease is None or not self._is_ours(lease):
                lease = await self._read()
            if lease is None or not self._is_ours(lease):
                return
            try:
                await self._give_back(lease)
            except Conflict:
                if (found := await self._read()) is None or not self._is_ours(found):
                    return
                await self._give_back(found)
        except ApiError as error:
            log.warning("lease not released", lease=self._name, error=str(error))
        else:
            self._lease, self._is_writing = None, False
            log.info("lease released", lease=self._name)

    async def _give_back(self, lease: dict[str, Any]) -> None:
        free = {"holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": self._micro_time()}
        # The resourceVersion in the body causes a conflict if the Lease changed meanwhile.
        await self._write(lease, {**lease["spec"], **free})

    async def _try(self) -> bool:
        """Acquire or renew the Lease; return False if another replica holds it or the API server
        did not respond.
        """
        # Counted from before the request: the response can be late, and candidates count from when
        # the write became visible, which is never earlier than this.
        started = self._tried_at = self._clock.monotonic()
        try:
            if not (self.holds() and self._lease is not None):
                self._lease = await self._read()
            taken = await self._take(self._lease)
            self._is_writing = False
        except (Conflict, AlreadyExists, NotFound):
            # Written or deleted since it was read: the next attempt reads it again.
            self._lease, self._is_writing = None, False
            try:
                self._lease = await self._read()
            except ApiError as error:
                log.warning("lease not read", lease=self._name, error=str(error))
            return False
        except ApiError as error:
            log.warning("lease not renewed", lease=self._name, error=str(error))
            return False
        if taken:
            self._renewed_at = started
        return taken

    async def _read(self) -> dict[str, Any] | None:
        try:
            lease = await self._client.get(
                LEASES, self._name, self._namespace, timeout=self._request_timeout()
            )
        except NotFound:
            return None
        spec = lease.get("spec") or {}
        seen = (spec.get("holderIdentity"), spec.get("renewTime"), spec.get("leaseTransitions"))
        if seen != self._observed:
            self._observed = seen
            self._observed_at = self._clock.monotonic()
        return lease

    async def _take(self, lease: dict[str, Any] | None) -> bool:
        now = self._micro_time()
        mine = {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": max(1, round(self._timing.lease_duration)),
            "renewTime": now,
        }
        if lease is None:
            body = {
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": {"name": self._name, "namespace": self._namespace},
                "spec": {**mine, "acquireTime": now, "leaseTransitions": 0},
            }
            self._is_writing = True
            self._lease = await self._client.create(
                LEASES, body, self._namespace, timeout=self._request_timeout()
            )
            return True
        spec = lease.get("spec") or {}
        holder = spec.get("holderIdentity") or ""
        if holder == self._identity:
            await self._write(lease, {**spec, **mine})
            return True
        if holder and not self._expired(spec):
            return False
        transitions = int(spec.get("leaseTransitions") or 0) + 1
        await self._write(lease, {**mine, "acquireTime": now, "leaseTransitions": transitions})
        return True

    def _expired(self, spec: dict[str, Any]) -> bool:
        return self._clock.monotonic() - self._observed_at >= self._duration(spec)

    def _duration(self, spec: dict[str, Any]) -> float:
        return float(spec.get("leaseDurationSeconds") or self._timing.lease_duration)

    def _held_by_another(self) -> bool:
        return self._lease is not None and not self._is_ours(self._lease)

    def _is_ours(self, lease: dict[str, Any]) -> bool:
        return bool((lease.get("spec") or {}).get("holderIdentity") == self._identity)

    async def _write(self, lease: dict[str, Any], spec: dict[str, Any]) -> None:
        self._is_writing = True
        self._lease = await self._client.replace(
            LEASES,
            self._name,
            {**lease, "spec": spec},
            self._namespace,
            timeout=self._request_timeout(),
        )

    def _request_timeout(self) -> float:
        # An attempt that hangs leaves time for another one of the same length before the deadline.
        return (self._timing.renew_deadline - self._timing.retry_period) / 2

    def _pause(self) -> float:
        # Candidates that started together must not conflict forever.
        pause = self._timing.retry_period / 2 * self._rng.uniform(0.8, 1.2)
        spec = (self._lease or {}).get("spec") or {}
        left = self._duration(spec) - (self._clock.monotonic() - self._observed_at)
        return min(pause, left) if left > 0 else pause

    def _micro_time(self) -> str:
        return self._clock.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")


class SoleReplica:
    """Replaces the Election if leader election is disabled (one replica, compose)."""

    idle = 0.0

    def holds(self) -> bool:
        """Return whether writes are allowed: always."""
        return True

    def check(self) -> None:
        """Allow every write."""

    async def acquire(self) -> None:
        """Return at once."""

    async def keep(self) -> None:
        """Wait until cancelled."""
        await asyncio.Event().wait()

    async def release(self) -> None:
        """Do nothing."""


def elect(
    config: Config,
    client: KubeClient,
    *,
    timing: Timing,
    clock: Clock,
    rng: Random,
    loss: Loss,
) -> Election | SoleReplica:
    """Return the election of this replica, or its stand-in without leader election."""
    if not config.leader_elect:
        return SoleReplica()
    return Election(
        client=client,
        namespace=config.namespace,
        name=config.lease_name,
        identity=config.identity,
        timing=timing,
        clock=clock,
        rng=rng,
        loss=loss,
    )
