"""Authorization of callers for jobs."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from typing import Final

from di_kube.reviews import User
from di_server.access.address_lookups import AddressLookups
from di_server.access.grants import Grant, grant_of, grants_at
from di_server.access.permissions import Permissions
from di_server.access.rate_limits import AuthFailureLimiter, RateLimiter
from di_server.access.tokens import TokenAuthenticator
from di_server.config import AuthMode
from di_server.deadline import Deadline
from di_server.model.references import JobRef
from di_server.problems import NotAllowed, Unidentified
from di_server.rest.incoming import Caller
from di_server.retry_policy import RetryPolicy
from di_server.storage.pods import PodStore
from di_server.storage.reviews import AUDIENCE

_POD_NAME: Final = "authentication.kubernetes.io/pod-name"
_POD_UID: Final = "authentication.kubernetes.io/pod-uid"
_SERVICE_ACCOUNT: Final = "system:serviceaccount:"
_EVERY: Final = "*"
_HINT: Final = f"send a bearer token of audience {AUDIENCE}"


class Authorizer:
    """Authorizes a request before the job is read, so that a refusal reveals nothing about it.

    Callers that the caches know are admitted at no cost. All others are unknown until the API
    server has answered: the refusals of one address are limited, and so are the reviews that all of
    them cause.

    Args:
        policy: retries for unknown callers while too many of them call. It has its own waiting
            slots, so that no other request waits for them.
        tls_port: port with HTTPS, on which alone a token that is not a pod's is accepted: it can be
            valid for more than one job, and plain HTTP would reveal it. None: there is no HTTPS.
        own_token: this server's token for its other replicas; None: it knows none.
    """

    def __init__(
        self,
        *,
        mode: AuthMode,
        authenticator: TokenAuthenticator,
        permissions: Permissions,
        pods: PodStore,
        lookups: AddressLookups,
        rate_limiter: RateLimiter,
        auth_failures: AuthFailureLimiter,
        policy: RetryPolicy,
        tls_port: int | None,
        own_token: Callable[[], str | None],
    ) -> None:
        self._mode = mode
        self._authenticator = authenticator
        self._permissions = permissions
        self._pods = pods
        self._lookups = lookups
        self._rate_limiter = rate_limiter
        self._auth_failures = auth_failures
        self._policy = policy
        self._tls_port = tls_port
        self._own_token = own_token

    def admit(
        self,
        ref: JobRef,
        verb: str,
        caller: Caller,
        deadline: Deadline,
        *,
        asking: str | None = None,
    ) -> Grant:
        """Authorize the caller for the job, and count the request.

        Args:
            verb: RBAC verb on `dijobs/scale` that users need; pods need none for their own job.
            asking: the pod that the request names as its sender. A request of that pod itself
                counts for the pod's own rate limit, that of any other pod for the job's. A user has
                a separate rate limit.

        Raises:
            Unidentified: no token, or an invalid one.
            NotAllowed: a valid token without the permission.
            TooMany: too many refusals of the address, or requests beyond the rate limit.
            OverBudget: too many concurrent unknown callers.
        """
        grant = self._authorize(ref, verb, caller, deadline)
        # Counted only after authorization, or unknown callers could use up the rate limit of a job.
        # Any pod can name any other: names alone would be as many rate limits.
        own = JobRef(ref.namespace, asking) if asking and grant.pod in (None, asking) else ref
        self._rate_limiter.take(own, user=grant.user, caller=grant.caller)
        return grant

    def admit_to_all(
        self, namespace: str | None, verb: str, caller: Caller, deadline: Deadline
    ) -> Grant | None:
        """Authorize the caller for jobs of a namespace (None: of all); return the one job it may
        see, or None for all.

        Raises:
            Unidentified: no token, or an invalid one.
            NotAllowed: a valid token without the permission, and not of a job's pod.
            TooMany, OverBudget: as in `admit`.
        """
        found = self._authorize_all(namespace, verb, caller, deadline)
        self._rate_limiter.take(found.ref, user=found.user, caller=found.caller)
        return found if found.job_uid else None

    def admit_member(
        self, ref: JobRef, verb: str, caller: Caller, deadline: Deadline, *, only: str | None
    ) -> Grant:
        """Authorize the caller for the members of the job, and count the request for its pod.

        A pod reads and reports membership every few seconds, so it is enough that the cache has the
        pod.

        Args:
            only: the one pod that is allowed; None: all callers that can use the job.

        Raises:
            Unidentified, NotAllowed, TooMany, OverBudget: as in `admit`.
        """
        grant = self._authorize(ref, verb, caller, deadline, from_cache=True)
        if only not in (None, grant.pod) and self._mode is not AuthMode.OFF:
            raise NotAllowed(f"only {only} itself may say where it serves")
        pod = grant.pod or only
        self._rate_limiter.take(
            JobRef(ref.namespace, pod) if pod else ref, user=grant.user, caller=grant.caller
        )
        return grant

    def admit_peer(self, caller: Caller, deadline: Deadline) -> None:
        """Authorize another replica of this server, by a token of the server's own account.

        Raises:
            Unidentified: no token, or an invalid one.
            NotAllowed: a token of another account, or the server has no token itself.
            TooMany, OverBudget: as in `admit`.
        """
        if self._mode is AuthMode.OFF:
            return
        token = self._token(caller)
        if token is None:
            raise self._refusal(caller, "other servers are not known by their address")
        user = self._user(token, caller, deadline)
        self._check_encrypted(caller)
        own = self._own_token()
        me = own and self._policy.run(lambda: self._authenticator.user_of(own, deadline), deadline)
        if not me or user.name != me.name:
            raise NotAllowed(f"{user.name} is no replica of this server")

    def _authorize(
        self,
        ref: JobRef,
        verb: str,
        caller: Caller,
        deadline: Deadline,
        *,
        from_cache: bool = False,
    ) -> Grant:
        if self._mode is AuthMode.OFF:
            return Grant(ref)
        token = self._token(caller)
        if token is None:
            return self._by_address(ref, caller, deadline)
        user = self._user(token, caller, deadline)
        found = self._job_of_pod(user, deadline, from_cache=from_cache)
        if found is not None and found.ref == ref:
            return found
        self._check_encrypted(caller)
        if self._permissions.may(token, user, verb, ref, deadline):
            return Grant(ref, user=user.name, caller=_identity(user))
        raise NotAllowed(f"{user.name} may not {verb} dijobs/scale {ref.id}")

    def _authorize_all(
        self, namespace: str | None, verb: str, caller: Caller, deadline: Deadline
    ) -> Grant:
        """Return the grant for the caller's own job, or for all jobs one without a job's UID."""
        if self._mode is AuthMode.OFF:
            return Grant(JobRef(namespace or _EVERY, _EVERY))
        token = self._token(caller)
        if token is None:
            return self._owner_at(caller, deadline)
        user = self._user(token, caller, deadline)
        found = self._job_of_pod(user, deadline)
        if found is None:
            self._check_encrypted(caller)
        everything = JobRef(namespace or "", "")
        if self._may_send_tokens(caller) and self._permissions.may(
            token, user, verb, everything, deadline
        ):
            return Grant(everything, user=user.name, caller=_identity(user))
        if found is not None:
            return found
        where = f"in namespace {namespace}" if namespace else "in all namespaces"
        raise NotAllowed(f"{user.name} may not {verb} dijobs/scale {where}")

    def _may_send_tokens(self, caller: Caller) -> bool:
        return caller.encrypted or self._tls_port is None

    def _check_encrypted(self, caller: Caller) -> None:
        """Refuse a token that plain HTTP may have revealed, so that its owner notices at the first
        try.
        """
        if not self._may_send_tokens(caller):
            raise NotAllowed(
                f"only a pod's token for its own job is taken over plain HTTP: use https and port "
                f"{self._tls_port}, and have this token replaced where it can be"
            )

    def _token(self, caller: Caller) -> str | None:
        token, why = _bearer(caller.authorization)
        if why is None and token is None and self._mode is AuthMode.REQUIRED:
            why = "this server takes no anonymous requests"
        if why is not None:
            self._auth_failures.check(caller.address)
            raise self._refusal(caller, why)
        return token

    def _user(self, token: str, caller: Caller, deadline: Deadline) -> User:
        if not self._authenticator.has_held(token):
            self._auth_failures.check(caller.address)
        user = self._policy.run(lambda: self._authenticator.user_of(token, deadline), deadline)
        if user is None:
            raise self._refusal(caller, "the token does not hold")
        return user

    def _job_of_pod(
        self, user: User, deadline: Deadline, *, from_cache: bool = False
    ) -> Grant | None:
        """Return the grant for the job of the pod that the token is bound to, None if there is
        none.
        """
        name, uid = user.only(_POD_NAME), user.only(_POD_UID)
        account = user.name.removeprefix(_SERVICE_ACCOUNT)
        if not (name and uid) or account == user.name:
            return None
        namespace = account.partition(":")[0]
        pod = self._pods.cached(namespace, name) if from_cache else None
        if pod is None or pod["metadata"]["uid"] != uid:
            pod = self._pods.find(namespace, name, deadline)
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
        """Return the grant that `pick` selects from the jobs of the pods at an address, None if
        there is none.
        """
        ip = _normal(address)

        def known() -> Grant | None:
            # Of several pods some are deleted or new: only the API server knows which.
            grant = _only(grants_at(self._pods.cached_at(ip), ip)) if ip else None
            return pick([grant]) if grant else None

        def looked_up() -> Grant | None:
            # The watch may have shown it meanwhile.
            return known() or (pick(self._lookups.at(ip, namespace, deadline)) if ip else None)

        found = known()
        if found is None:
            self._auth_failures.check(address)
            found = self._policy.run(looked_up, deadline)
        return found

    def _refusal(self, caller: Caller, why: str) -> Unidentified:
        self._auth_failures.count(caller.address)
        # A client that follows the hint must not send the token unencrypted.
        where = "" if self._may_send_tokens(caller) else f" over https, port {self._tls_port}"
        return Unidentified(f"{why}: {_HINT}{where}")


def _identity(user: User) -> str:
    return user.uid or user.name


def _only(grants: list[Grant]) -> Grant | None:
    return grants[0] if len(grants) == 1 else None


def _bearer(authorization: str | None) -> tuple[str | None, str | None]:
    """Return the token, None if there is none; and the fault in the header, None if there
    is none.
    """
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
    # A dual-stack socket returns IPv4 callers as ::ffff:a.b.c.d.
    mapped = ip.ipv4_mapped if isinstance(ip, ipaddress.IPv6Address) else None
    return str(mapped or ip)
