"""Who may use the server on which job."""

from __future__ import annotations

import hashlib
import ipaddress
import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from di_server.deadline import Clock, Deadline
from di_server.decisions.addresses import controller_uid, has_ended
from di_server.decisions.job_id import JobRef
from di_server.problems import NotAllowed, Unidentified
from di_server.storage.pods import PodStore
from di_server.storage.reviews import AUDIENCE, ReviewStore, User

_POD_NAME: Final = "authentication.kubernetes.io/pod-name"
_POD_UID: Final = "authentication.kubernetes.io/pod-uid"
_SERVICE_ACCOUNT: Final = "system:serviceaccount:"
_CACHE_SECONDS: Final = 60.0
_CACHE_ENTRIES: Final = 4096
_HINT: Final = f"send a bearer token of audience {AUDIENCE}"


class AuthMode(StrEnum):
    """Whether callers have to say who they are."""

    OFF = "off"
    """Whoever reaches the server may do everything: for development only."""
    OPTIONAL = "optional"
    """Without a token a pod reaches its own job, found by its address; nobody else anything."""
    REQUIRED = "required"
    """Nothing without a token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """What a request says about its sender."""

    authorization: str | None
    address: str


@dataclass(frozen=True, slots=True)
class Grant:
    """Leave to use one job; with a UID only that job, not a later one of the same name."""

    ref: JobRef
    job_uid: str | None = None

    def check(self, job: Mapping[str, Any]) -> None:
        """Refuse another job than the one the grant was made for.

        Raises:
            NotAllowed: the name is a later job's by now.
        """
        if self.job_uid not in (None, job["metadata"]["uid"]):
            raise NotAllowed(f"the calling pod does not belong to this job {self.ref.id}")


class Gate:
    """Decides on a request before the job is read, so that a refusal tells nothing about it."""

    def __init__(
        self, *, mode: AuthMode, reviews: ReviewStore, pods: PodStore, clock: Clock
    ) -> None:
        self._mode = mode
        self._reviews = reviews
        self._pods = pods
        self._tokens = _TokenCache(clock)

    def admit(self, ref: JobRef, verb: str, caller: Caller, deadline: Deadline) -> Grant:
        """Let the caller through to the job.

        Args:
            verb: the RBAC verb people need on `dijobs/scale`; pods need none for their own job.

        Raises:
            Unidentified: no token, or one that does not hold.
            NotAllowed: a good token of somebody who may not do this.
        """
        if self._mode is AuthMode.OFF:
            return Grant(ref)
        token = _bearer(caller.authorization)
        if token is not None:
            return self._by_token(ref, verb, token, deadline)
        if self._mode is AuthMode.REQUIRED:
            raise Unidentified(f"this server takes no anonymous requests: {_HINT}")
        return self._by_address(ref, caller.address, deadline)

    def _by_token(self, ref: JobRef, verb: str, token: str, deadline: Deadline) -> Grant:
        digest = hashlib.sha256(token.encode()).digest()
        known, user = self._tokens.get(digest)
        if not known:
            user = self._reviews.user_of(token, deadline)
            self._tokens.put(digest, user)
        if user is None:
            raise Unidentified(f"the token does not hold: {_HINT}")
        uid = self._job_of_pod(ref, user, deadline)
        if uid is not None:
            return Grant(ref, uid)
        if self._reviews.may(user, verb, ref, deadline):
            return Grant(ref)
        raise NotAllowed(f"{user.name} may not {verb} dijobs/scale {ref.id}")

    def _job_of_pod(self, ref: JobRef, user: User, deadline: Deadline) -> str | None:
        """UID of the job named `ref`, if the token is bound to one of its pods."""
        name, uid = user.only(_POD_NAME), user.only(_POD_UID)
        if not (name and uid and user.name.startswith(f"{_SERVICE_ACCOUNT}{ref.namespace}:")):
            return None
        pod = self._pods.find(ref.namespace, name, deadline)
        if pod is None or pod["metadata"]["uid"] != uid:
            return None
        return controller_uid(pod, name=ref.name)

    def _by_address(self, ref: JobRef, address: str, deadline: Deadline) -> Grant:
        ip = _normal(address)
        for pod in self._pods.of_job_at(ref, ip, deadline) if ip else ():
            # Everything on a node shares its address, so that tells nothing; and an ended
            # pod's address may be another's by now.
            if pod["spec"].get("hostNetwork") or has_ended(pod):
                continue
            if (pod.get("status") or {}).get("podIP") == ip and (
                uid := controller_uid(pod, name=ref.name)
            ):
                return Grant(ref, uid)
        raise Unidentified(f"{ip or 'the caller'} is no pod of job {ref.id}: {_HINT}")


class _TokenCache:
    """Answers of TokenReview for a minute, also the negative ones; tokens only as digests."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._users: OrderedDict[bytes, tuple[float, User | None]] = OrderedDict()

    def get(self, digest: bytes) -> tuple[bool, User | None]:
        with self._lock:
            until, user = self._users.get(digest, (0.0, None))
        fresh = until > self._clock()
        return fresh, user if fresh else None

    def put(self, digest: bytes, user: User | None) -> None:
        with self._lock:
            self._users[digest] = (self._clock() + _CACHE_SECONDS, user)
            self._users.move_to_end(digest)
            if len(self._users) > _CACHE_ENTRIES:
                self._users.popitem(last=False)


def _bearer(authorization: str | None) -> str | None:
    if authorization is None:
        return None
    scheme, _, token = authorization.partition(" ")
    token = token.strip()
    if scheme.lower() != "bearer" or not token or not token.isascii():
        raise Unidentified(f"the Authorization header is not understood: {_HINT}")
    return token


def _normal(address: str) -> str | None:
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return None
    # A dual-stack socket shows IPv4 callers as ::ffff:a.b.c.d.
    mapped = ip.ipv4_mapped if isinstance(ip, ipaddress.IPv6Address) else None
    return str(mapped or ip)
