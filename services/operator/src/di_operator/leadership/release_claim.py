"""The claim of a release on a scope of DIJobs, which excludes other releases from it.

Leader election is between the replicas of one release. Two releases, in two namespaces, would both
lead. So before the election each replica makes sure that its release holds the scope. The scope is
a Lease with a fixed name: in the watched namespace, or in the release's own namespace if it watches
all.

A Lease has one release as its holder. A release for all namespaces also has to respect the Leases
of others: it writes its own, then reads theirs, and withdraws if it finds a valid one. If two
releases do so at the same time, at least one of them sees the other. Every replica of the holder
renews, so that an upgrade never releases a claim. A claim is never released; it expires.

A user with write access to Leases in a namespace can create one with this name there. Outside of
the release's own namespace such a Lease counts only if the operator's ServiceAccount of that
namespace has the permissions of a release for all namespaces. So a tenant can block no release, and
neither can an uninstalled release.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import datetime
from random import Random
from typing import Any, Final, NoReturn

import structlog

from di_api.names import GROUP, OPERATOR_NAME, PLURAL
from di_kube.client import KubeClient
from di_kube.errors import AlreadyExists, ApiError, Conflict, NotFound
from di_kube.resources import LEASES, SUBJECT_ACCESS_REVIEWS
from di_operator.config import Config
from di_operator.lifecycle.vocabulary.timestamps import parse_time
from di_operator.process.clock import Clock
from di_operator.process.lease_state import Loss

log = structlog.get_logger(__name__)

LEASE_NAME: Final = "di-operator-scope"
"""Lease name, the same for all releases."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimTiming:
    """Intervals in seconds. Another release can take a claim that was not renewed for `duration`.

    Each replica of the holder renews every `renew_period` with 20 % jitter, and after a failure
    every `retry_period`. A holder that could not renew stops a `renew_period` earlier. A claim that
    is older than `forgotten` when it is first seen counts as expired.
    """

    duration: float = 40.0
    renew_period: float = 10.0
    retry_period: float = 2.0
    forgotten: float = 600.0


class Claim:
    """Takes and keeps the scope for a release.

    Attributes:
        held: set once the release holds the scope.
        objection: why the release does not hold the scope, None if it does.
    """

    def __init__(
        self,
        *,
        client: KubeClient,
        release: str,
        watched: str | None,
        timing: ClaimTiming,
        clock: Clock,
        rng: Random,
        loss: Loss,
    ) -> None:
        """`release` is the release's namespace, `watched` the namespace of its jobs, None: all.

        `loss` records the loss of the scope.
        """
        self._loss = loss
        self._client = client
        self._release = release
        self._watched = watched
        self._timing = timing
        self._clock = clock
        self._rng = rng
        # By UID of the Lease: holder and time of its last renewal, and when this was first seen.
        self._seen: dict[str, tuple[tuple[str, str], float]] = {}
        # Since when the scope is certainly held; None before.
        self._renewed_at: float | None = None
        # The Lease as this replica wrote it last; None if it has to be read before it is written.
        self._written: dict[str, Any] | None = None
        self._is_alone = True
        self.held = asyncio.Event()
        self.objection: str | None = f"nobody has been asked yet who looks after {self._scope}"

    async def run(self) -> None:
        """Take the scope, then renew the claim until cancelled.

        Raises:
            NotLeading: the scope was lost.
        """
        if self._renewed_at is not None:
            # Restarted after a defect: the claim continues, or is lost.
            await self._keep(self._renewed_at, pause=0.0)
        while True:
            started = self._clock.monotonic()
            try:
                if await self._take() and not self._is_late(started):
                    break
            except (AlreadyExists, Conflict):
                pass  # another replica wrote: read again
            except ApiError as error:
                self._object(f"the claim on {self._scope} cannot be made: {error}")
            await self._clock.sleep(self._timing.retry_period * self._rng.uniform(0.5, 1.5))
        self.objection = None
        self.held.set()
        log.info("scope claimed", scope=self._scope, lease=LEASE_NAME)
        await self._keep(started, pause=self._timing.renew_period)

    @property
    def _scope(self) -> str:
        return f"the DIJobs of namespace {self._watched}" if self._watched else "all DIJobs"

    @property
    def _home(self) -> str:
        return self._watched or self._release

    async def _take(self) -> bool:
        leases = await self._leases()
        rival = await self._rival(leases)
        if rival is None:
            await self._write(_at(leases, self._home), self._release)
            if self._watched is not None:
                return True
            leases = await self._leases()
            rival = await self._rival(leases)
            if rival is None:
                return True
            await self._write(_at(leases, self._home), "")
        lease = f"{rival['metadata']['namespace']}/{LEASE_NAME}"
        self._object(
            f"the operator in namespace {_holder(rival)} looks after DIJobs that are this one's to "
            f"look after (it holds the Lease {lease}); uninstall one of the two releases"
        )
        return False

    def _is_late(self, since: float) -> bool:
        """Return whether others can treat a claim with this last renewal as expired."""
        return self._left(since) <= 0

    def _left(self, since: float) -> float:
        """Return the seconds until a claim with this last renewal counts as lost."""
        valid = self._timing.duration - self._timing.renew_period
        return since + valid - self._clock.monotonic()

    async def _keep(self, renewed_at: float, *, pause: float) -> NoReturn:
        """Renew until the scope is lost; the last renewal was at `renewed_at` or later."""
        while True:
            self._renewed_at = renewed_at
            # Replicas that started together must not write at the same moment forever.
            await self._clock.sleep(pause * self._rng.uniform(0.8, 1.2))
            # Checked before the renewal: after a delay another release can hold a Lease of its own.
            if self._is_late(renewed_at):
                raise self._loss.declare(f"lease {self._home}/{LEASE_NAME} could not be renewed")
            try:
                async with asyncio.timeout(self._left(renewed_at)):
                    renewed_at = await self._renew()
                pause = self._timing.renew_period
            except TimeoutError:
                pause = 0.0  # too late now
            except ApiError as error:
                log.info("claim not renewed", lease=LEASE_NAME, error=str(error))
                pause = self._timing.retry_period

    async def _renew(self) -> float:
        """Renew the claim once; return a moment no later than the renewal.

        While no other client writes the Lease, it is written without being read.

        Raises:
            NotLeading: the scope was lost.
            ApiError: the claim was not renewed.
        """
        started = self._clock.monotonic()
        if self._written is not None:
            try:
                self._written = await self._write(self._written, self._release)
            except (Conflict, NotFound):
                # Another replica renews too, or another release has taken the Lease.
                self._written, self._is_alone = None, False
            else:
                return started
        lease = await self._own()
        try:
            written = await self._write(lease, self._release)
        except Conflict:
            # Usually another replica of the release was faster, and its renewal counts.
            if _renewal(await self._own()) == _renewal(lease):
                raise
        else:
            self._written = written if self._is_alone else None
        return started

    async def _own(self) -> dict[str, Any]:
        """Read the claim's Lease. Raises NotLeading if the release does not hold it."""
        lease = _at(await self._leases(self._home), self._home)
        if lease is None or _holder(lease) != self._release:
            raise self._loss.declare(f"lost lease {self._home}/{LEASE_NAME}")
        return lease

    async def _leases(self, namespace: str | None = None) -> list[dict[str, Any]]:
        leases, _ = await self._client.list(
            LEASES, namespace or self._watched, field_selector=f"metadata.name={LEASE_NAME}"
        )
        return leases

    async def _rival(self, leases: list[dict[str, Any]]) -> dict[str, Any] | None:
        """Return another release's valid claim, None if there is none."""
        rivals = [lease for lease in leases if _holder(lease) not in ("", self._release)]
        # Every one is checked, to record since when it has not been renewed.
        for lease in [lease for lease in rivals if not self._has_run_out(lease)]:
            namespace = lease["metadata"]["namespace"]
            if namespace == self._home or await self._looks_after_all(namespace):
                return lease
        return None

    async def _looks_after_all(self, namespace: str) -> bool:
        """Return whether the operator of a namespace has permission for the DIJobs of all
        namespaces.
        """
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")
        body = {
            "apiVersion": SUBJECT_ACCESS_REVIEWS.api_version,
            "kind": SUBJECT_ACCESS_REVIEWS.kind,
            "spec": {
                "user": f"system:serviceaccount:{namespace}:{OPERATOR_NAME}",
                "groups": [*groups, "system:authenticated"],
                "resourceAttributes": {
                    "group": GROUP,
                    "resource": PLURAL,
                    # Checks the status subresource and not list, because users can have permission
                    # to list.
                    "subresource": "status",
                    "verb": "patch",
                },
            },
        }
        review = await self._client.create(SUBJECT_ACCESS_REVIEWS, body)
        return (review.get("status") or {}).get("allowed") is True

    def _has_run_out(self, lease: dict[str, Any]) -> bool:
        now = self._clock.monotonic()
        spec, uid = lease.get("spec") or {}, lease["metadata"]["uid"]
        state = (_holder(lease), str(spec.get("renewTime")))
        known = self._seen.get(uid)
        if known is None or known[0] != state:
            renewed = parse_time(spec.get("renewTime"))
            age = (self._clock.now() - renewed).total_seconds() if renewed else 0.0
            is_old = known is None and age > self._timing.forgotten
            known = state, now - self._timing.forgotten if is_old else now
            self._seen[uid] = known
        return now - known[1] >= self._timing.duration

    async def _write(self, lease: dict[str, Any] | None, holder: str) -> dict[str, Any]:
        spec = {
            "holderIdentity": holder,
            "leaseDurationSeconds": max(1, round(self._timing.duration)),
            "renewTime": _micro_time(self._clock.now()),
        }
        if lease is not None:
            # Its resourceVersion causes a conflict if another client has written it.
            body = {**lease, "spec": {**(lease.get("spec") or {}), **spec}}
            return await self._client.replace(LEASES, LEASE_NAME, body, self._home)
        body = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": LEASE_NAME, "namespace": self._home},
            "spec": spec,
        }
        return await self._client.create(LEASES, body, self._home)

    def _object(self, why: str) -> None:
        if why != self.objection:
            log.warning("idle", reason=why)
        self.objection = why


class NoClaim:
    """Replaces the Claim if leader election is disabled."""

    def __init__(self) -> None:
        self.held = asyncio.Event()
        self.held.set()
        self.objection: str | None = None

    async def run(self) -> None:
        """Hold the scope until cancelled."""
        await asyncio.Event().wait()


def claim(
    config: Config,
    client: KubeClient,
    *,
    timing: ClaimTiming,
    clock: Clock,
    rng: Random,
    loss: Loss,
) -> Claim | NoClaim:
    """Return the claim of this release, or its stand-in without leader election."""
    if not config.leader_elect:
        return NoClaim()
    return Claim(
        client=client,
        release=config.namespace,
        watched=config.watch_namespace,
        timing=timing,
        clock=clock,
        rng=rng,
        loss=loss,
    )


def _at(leases: list[dict[str, Any]], namespace: str) -> dict[str, Any] | None:
    return next((one for one in leases if one["metadata"]["namespace"] == namespace), None)


def _renewal(lease: dict[str, Any]) -> object:
    return (lease.get("spec") or {}).get("renewTime")


def _holder(lease: dict[str, Any]) -> str:
    return str((lease.get("spec") or {}).get("holderIdentity") or "")


def _micro_time(now: datetime) -> str:
    return now.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
