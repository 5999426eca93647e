"""Who may use the server on which job."""

from __future__ import annotations

import hashlib
import ipaddress
import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from di_api.ownership import controlling_job
from di_server.deadline import Clock, Deadline
from di_server.decisions.addresses import has_ended
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
        token = self._token(caller)
        if token is None:
            return self._by_address(ref, caller.address, deadline)
        user = self._user(token, deadline)
        found = self._job_of_pod(user, deadline)
        if found is not None and found.ref == ref:
            return found
        if self._reviews.may(user, verb, ref, deadline):
            return Grant(ref)
        raise NotAllowed(f"{user.name} may not {verb} dijobs/scale {ref.id}")

    def admit_to_all(
        self, namespace: str | None, verb: str, caller: Caller, deadline: Deadline
    ) -> Grant | None:
        """Let the caller see jobs of a namespace (None: of all): its own one, or (None) all.

        Raises:
            Unidentified: no token, or one that does not hold.
            NotAllowed: a good token of somebody who may not do this and is no pod of a job.
        """
        if self._mode is AuthMode.OFF:
            return None
        token = self._token(caller)
        if token is None:
            return self._owner_at(caller.address, deadline)
        user = self._user(token, deadline)
        if self._reviews.may(user, verb, JobRef(namespace or "", ""), deadline):
            return None
        found = self._job_of_pod(user, deadline)
        if found is not None:
            return found
        where = f"in namespace {namespace}" if namespace else "in all namespaces"
        raise NotAllowed(f"{user.name} may not {verb} dijobs/scale {where}")

    def _token(self, caller: Caller) -> str | None:
        token = _bearer(caller.authorization)
        if token is None and self._mode is AuthMode.REQUIRED:
            raise Unidentified(f"this server takes no anonymous requests: {_HINT}")
        return token

    def _user(self, token: str, deadline: Deadline) -> User:
        digest = hashlib.sha256(token.encode()).digest()
        known, user = self._tokens.get(digest)
        if not known:
            user = self._reviews.user_of(token, deadline)
            self._tokens.put(digest, user)
        if user is None:
            raise Unidentified(f"the token does not hold: {_HINT}")
        return user

    def _job_of_pod(self, user: User, deadline: Deadline) -> Grant | None:
        """The job of the pod that the token is bound to, if it is bound to one."""
        name, uid = user.only(_POD_NAME), user.only(_POD_UID)
        account = user.name.removeprefix(_SERVICE_ACCOUNT)
        if not (name and uid) or account == user.name:
            return None
        pod = self._pods.find(account.partition(":")[0], name, deadline)
        if pod is None or pod["metadata"]["uid"] != uid:
            return None
        return _owner(pod)

    def _by_address(self, ref: JobRef, address: str, deadline: Deadline) -> Grant:
        ip = _normal(address)
        known = _owners(self._pods.known_at(ip), ip) if ip else []
        if len(known) == 1 and known[0].ref == ref:
            return known[0]
        # A pod that has only just started, or an address that has gone from one to another.
        for grant in _owners(self._pods.of_job_at(ref, ip, deadline), ip) if ip else ():
            if grant.ref == ref:
                return grant
        raise Unidentified(f"{ip or 'the caller'} is no pod of job {ref.id}: {_HINT}")

    def _owner_at(self, address: str, deadline: Deadline) -> Grant:
        ip = _normal(address)
        known = _owners(self._pods.known_at(ip), ip) if ip else []
        found = known if len(known) == 1 or not ip else _owners(self._pods.at(ip, deadline), ip)
        if len(found) != 1:
            raise Unidentified(f"{ip or 'the caller'} is no pod of a job: {_HINT}")
        return found[0]


def _owners(pods: Iterable[Mapping[str, Any]], ip: str) -> list[Grant]:
    """The jobs of the pods that have the address for themselves."""
    grants = (
        _owner(pod)
        for pod in pods
        # Everything on a node shares its address, so that tells nothing; and an ended pod's
        # address may be another's by now.
        if not pod["spec"].get("hostNetwork") and not has_ended(pod)
        if (pod.get("status") or {}).get("podIP") == ip
    )
    return [grant for grant in grants if grant is not None]


def _owner(pod: Mapping[str, Any]) -> Grant | None:
    """The job that controls a pod."""
    owner = controlling_job(pod)
    if owner is None:
        return None
    return Grant(JobRef(pod["metadata"]["namespace"], owner["name"]), owner["uid"])


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
