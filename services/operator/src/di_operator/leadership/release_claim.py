"""The claim of a release on the DIJobs it looks after, so that no other one works on them too.

Leader election is between the replicas of one release. Two releases, in two namespaces, would both
lead. Before it takes part in the election each replica therefore makes sure that a Lease of a name
that all releases share says that its release holds the scope: in the watched namespace, or in the
release's own where all namespaces are watched.

Of one Lease one release is the holder. A release for all namespaces has to mind the Leases of
others for all too: it writes its own first and reads theirs then, and withdraws if it finds one
held. Of two that do so at the same time at least one sees the other. Every replica of the holder
renews, so that an upgrade never gives a claim up; nobody gives it back, it runs out.

Whoever may write Leases in a namespace can write one of this name there. Outside of the release's
own home it counts only where the operator's ServiceAccount of that namespace may do what a release
for all namespaces does. So a tenant stops nobody, and a release that was uninstalled stands in
nobody's way.
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
from di_kube.errors import AlreadyExists, ApiError, Conflict
from di_kube.resources import LEASES, SUBJECT_ACCESS_REVIEWS
from di_operator.config import Config
from di_operator.lifecycle.vocabulary.timestamps import parse_time
from di_operator.process.clock import Clock
from di_operator.process.lease_state import Loss

log = structlog.get_logger(__name__)

LEASE_NAME: Final = "di-operator-scope"
"""The same for all releases."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimTiming:
    """Seconds. A claim that nobody renewed for `duration` may be taken by another release.

    Each replica of the holder renews every `renew_period`, a fifth more or less, and after a
    failure every `retry_period`. A holder that could not renew stops a `renew_period` earlier.
    A claim that is older than `forgotten` when it is first seen counts as run out.
    """

    duration: float = 40.0
    renew_period: float = 10.0
    retry_period: float = 2.0
    forgotten: float = 600.0


class Claim:
    """Takes and keeps the scope for a release.

    Attributes:
        held: set once the release holds the scope.
        objection: why it does not, None if it does.
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
        """`release` is the release's namespace, `watched` the one it looks after, None: all.

        `loss` records that the scope is lost.
        """
        self._loss = loss
        self._client = client
        self._release = release
        self._watched = watched
        self._timing = timing
        self._clock = clock
        self._rng = rng
        # By UID of the Lease: holder and time of its last renewal, and since when we know them.
        self._seen: dict[str, tuple[tuple[str, str], float]] = {}
        # Since when the scope is held for certain; None before it is.
        self._renewed_at: float | None = None
        self.held = asyncio.Event()
        self.objection: str | None = f"nobody has been asked yet who looks after {self._scope}"

    async def run(self) -> None:
        """Take the scope, then renew the claim until cancelled.

        Raises:
            NotLeading: the scope was lost.
        """
        if self._renewed_at is not None:
            # Started again after a mistake of ours: the claim goes on, or is lost.
            await self._keep(self._renewed_at, pause=0.0)
        while True:
            started = self._clock.monotonic()
            try:
                if await self._take() and not self._is_late(started):
                    break
            except (AlreadyExists, Conflict):
                pass  # somebody else wrote: look again
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
        """Whether others may take a claim for run out that was renewed then."""
        return self._left(since) <= 0

    def _left(self, since: float) -> float:
        """Seconds until a claim that was renewed then counts as lost."""
        valid = self._timing.duration - self._timing.renew_period
        return since + valid - self._clock.monotonic()

    async def _keep(self, renewed_at: float, *, pause: float) -> NoReturn:
        """Renew until the scope is lost; it was renewed at `renewed_at` or later."""
        while True:
            self._renewed_at = renewed_at
            # Replicas that started together must not write at the same moment for ever.
            await self._clock.sleep(pause * self._rng.uniform(0.8, 1.2))
            # Before it is renewed: after a pause another release may hold a Lease of its own.
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
        """Renew the claim once; returns a moment that the renewal is not older than.

        Raises:
            NotLeading: the scope was lost.
            ApiError: it was not renewed.
        """
        started, lease = self._clock.monotonic(), await self._own()
        try:
            await self._write(lease, self._release)
        except Conflict:
            # Most often another replica of the release was faster, and its renewal counts.
            if _renewal(await self._own()) == _renewal(lease):
                raise
        return started

    async def _own(self) -> dict[str, Any]:
        """Read the claim's Lease; raises NotLeading if the release does not hold it."""
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
        """Another release's claim that has not run out."""
        rivals = [lease for lease in leases if _holder(lease) not in ("", self._release)]
        # Each of them is looked at, to know since when it has not been renewed.
        for lease in [lease for lease in rivals if not self._has_run_out(lease)]:
            namespace = lease["metadata"]["namespace"]
            if namespace == self._home or await self._looks_after_all(namespace):
                return lease
        return None

    async def _looks_after_all(self, namespace: str) -> bool:
        """Whether the operator of a namespace may look after the DIJobs of all."""
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
                    # Not a list of them, which people are given too.
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

    async def _write(self, lease: dict[str, Any] | None, holder: str) -> None:
        spec = {
            "holderIdentity": holder,
            "leaseDurationSeconds": max(1, round(self._timing.duration)),
            "renewTime": _micro_time(self._clock.now()),
        }
        if lease is not None:
            # Its resourceVersion makes this a conflict if somebody else has written it.
            body = {**lease, "spec": {**(lease.get("spec") or {}), **spec}}
            await self._client.replace(LEASES, LEASE_NAME, body, self._home)
            return
        body = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": LEASE_NAME, "namespace": self._home},
            "spec": spec,
        }
        await self._client.create(LEASES, body, self._home)

    def _object(self, why: str) -> None:
        if why != self.objection:
            log.warning("idle", reason=why)
        self.objection = why


class NoClaim:
    """Stands in for the Claim where leader election is switched off, too."""

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
    """Return what claims the jobs for this release."""
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
