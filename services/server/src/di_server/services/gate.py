"""Who may use the server on which job."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from di_server.deadline import Deadline
from di_server.decisions.job_id import JobRef
from di_server.problems import NotAllowed, Unidentified
from di_server.services.grants import Grant, grant_of, grants_at
from di_server.services.limiter import Refusals
from di_server.services.lookups import Lookups
from di_server.services.patience import Patience
from di_server.services.tokens import Tokens
from di_server.storage.pods import PodStore
from di_server.storage.reviews import AUDIENCE, ReviewStore, User

_POD_NAME: Final = "authentication.kubernetes.io/pod-name"
_POD_UID: Final = "authentication.kubernetes.io/pod-uid"
_SERVICE_ACCOUNT: Final = "system:serviceaccount:"
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


class Gate:
    """Decides on a request before the job is read, so that a refusal tells nothing about it.

    Whoever is known from memory passes at no cost. For all others the API server has to be asked,
    so they are strangers until it has answered: the refusals of one address are limited, and so
    are the questions that all of them cause.

    Args:
        patience: for strangers while too many of them ask. It needs places of its own: nobody
            else may wait for them.
    """

    def __init__(
        self,
        *,
        mode: AuthMode,
        tokens: Tokens,
        reviews: ReviewStore,
        pods: PodStore,
        lookups: Lookups,
        refusals: Refusals,
        patience: Patience,
    ) -> None:
        self._mode = mode
        self._tokens = tokens
        self._reviews = reviews
        self._pods = pods
        self._lookups = lookups
        self._refusals = refusals
        self._patience = patience

    def admit(self, ref: JobRef, verb: str, caller: Caller, deadline: Deadline) -> Grant:
        """Let the caller through to the job.

        Args:
            verb: the RBAC verb people need on `dijobs/scale`; pods need none for their own job.

        Raises:
            Unidentified: no token, or one that does not hold.
            NotAllowed: a good token of somebody who may not do this.
            TooMany: the address has been refused too often.
            OverBudget: too many strangers ask at once.
        """
        if self._mode is AuthMode.OFF:
            return Grant(ref)
        token = self._token(caller)
        if token is None:
            return self._by_address(ref, caller, deadline)
        user = self._user(token, caller, deadline)
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
            TooMany, OverBudget: as in `admit`.
        """
        if self._mode is AuthMode.OFF:
            return None
        token = self._token(caller)
        if token is None:
            return self._owner_at(caller, deadline)
        user = self._user(token, caller, deadline)
        if self._reviews.may(user, verb, JobRef(namespace or "", ""), deadline):
            return None
        found = self._job_of_pod(user, deadline)
        if found is not None:
            return found
        where = f"in namespace {namespace}" if namespace else "in all namespaces"
        raise NotAllowed(f"{user.name} may not {verb} dijobs/scale {where}")

    def _token(self, caller: Caller) -> str | None:
        token, why = _bearer(caller.authorization)
        if why is None and token is None and self._mode is AuthMode.REQUIRED:
            why = "this server takes no anonymous requests"
        if why is not None:
            self._refusals.check(caller.address)
            raise self._refusal(caller, why)
        return token

    def _user(self, token: str, caller: Caller, deadline: Deadline) -> User:
        if not self._tokens.has_held(token):
            self._refusals.check(caller.address)
        user = self._patience.run(lambda: self._tokens.user_of(token, deadline), deadline)
        if user is None:
            raise self._refusal(caller, "the token does not hold")
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
        return grant_of(pod)

    def _by_address(self, ref: JobRef, caller: Caller, deadline: Deadline) -> Grant:
        def the_jobs(grants: list[Grant]) -> Grant | None:
            return next((grant for grant in grants if grant.ref == ref), None)

        found = self._at_address(the_jobs, ref.namespace, caller.address, deadline)
        if found is None:
            raise self._refusal(caller, f"{caller.address} is no pod of job {ref.id}")
        return found

    def _owner_at(self, caller: Caller, deadline: Deadline) -> Grant:
        found = self._at_address(_only, None, caller.address, deadline)
        if found is None:
            raise self._refusal(caller, f"{caller.address} is no pod of a job")
        return found

    def _at_address(
        self,
        pick: Callable[[list[Grant]], Grant | None],
        namespace: str | None,
        address: str,
        deadline: Deadline,
    ) -> Grant | None:
        """What `pick` takes of the jobs of the pods at an address, None if nothing."""
        ip = _normal(address)

        def known() -> Grant | None:
            # Of several one has gone or is new: only the API server knows which.
            grant = _only(grants_at(self._pods.known_at(ip), ip)) if ip else None
            return pick([grant]) if grant else None

        def looked_up() -> Grant | None:
            # The watch may have shown it meanwhile.
            return known() or (pick(self._lookups.at(ip, namespace, deadline)) if ip else None)

        found = known()
        if found is None:
            self._refusals.check(address)
            found = self._patience.run(looked_up, deadline)
        return found

    def _refusal(self, caller: Caller, why: str) -> Unidentified:
        self._refusals.count(caller.address)
        return Unidentified(f"{why}: {_HINT}")


def _only(grants: list[Grant]) -> Grant | None:
    return grants[0] if len(grants) == 1 else None


def _bearer(authorization: str | None) -> tuple[str | None, str | None]:
    """The token, None if there is none; and what is wrong with the header, None if nothing."""
    if authorization is None:
        return None, None
    scheme, _, token = authorization.partition(" ")
    token = token.strip()
    if scheme.lower() != "bearer" or not token or not token.isascii():
        return None, "the Authorization header is not understood"
    return token, None


def _normal(address: str) -> str | None:
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return None
    # A dual-stack socket shows IPv4 callers as ::ffff:a.b.c.d.
    mapped = ip.ipv4_mapped if isinstance(ip, ipaddress.IPv6Address) else None
    return str(mapped or ip)
