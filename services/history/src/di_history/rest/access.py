"""Authorization: a user who can see a job can see its history."""

from __future__ import annotations

import hashlib
import ipaddress
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol

from di_api.names import GROUP, HISTORY_NAME, PLURAL
from di_history.config import AuthMode
from di_kube.errors import ApiError
from di_kube.resources import SUBJECT_ACCESS_REVIEWS, TOKEN_REVIEWS, Resource
from di_kube.reviews import User, access_review, is_allowed, reviewed_user, token_review
from di_service.problems import Busy, NotAllowed, Unidentified
from di_service.sources import source_of
from di_service.token_buckets import TokenBuckets
from di_service.ttl_cache import TtlCache

AUDIENCES: Final = (HISTORY_NAME, None)
"""Audiences of accepted tokens; None is the API server's, so that users send the token they have.
Tokens for other services are refused.
"""
_HOLDS_SECONDS: Final = 60.0
_FAILS_SECONDS: Final = 10.0
_PERMISSION_SECONDS: Final = 10.0
"""Seconds after which a permission is checked again, granted or not."""
_MOST: Final = 4096
AWAY_SECONDS: Final = 2.0
"""Seconds until a retry, if the error names none."""
_REVIEW_SECONDS: Final = 5.0
_HINT: Final = f"send a bearer token of the API server, or of audience {HISTORY_NAME}"
_LOGS: Final = {"group": "", "resource": "pods", "subresource": "log", "verb": "get"}
_ONE: Final = {"group": GROUP, "resource": PLURAL, "verb": "get"}
_ALL: Final = {"group": GROUP, "resource": PLURAL, "verb": "list"}


class Reviews(Protocol):
    """The API client as used for reviews; each call raises one of `di_kube.errors`."""

    def create(
        self, resource: Resource, body: dict[str, Any], *, timeout: float | None
    ) -> dict[str, Any]:
        """Create a review, and return it with its result."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The request's data about its sender."""

    authorization: str | None
    address: str
    encrypted: bool


class Access:
    """Authorizes callers through the API server; caches results for a short time.

    Args:
        review_rate: TokenReviews per second and address, for tokens that are not known to be valid.
    """

    def __init__(
        self,
        *,
        mode: AuthMode,
        kube: Reviews,
        review_rate: float,
        clock: Callable[[], float],
    ) -> None:
        self._mode = mode
        self._kube = kube
        self._good = TtlCache[bytes, User](seconds=_HOLDS_SECONDS, most=_MOST, clock=clock)
        self._bad = TtlCache[bytes, bool](seconds=_FAILS_SECONDS, most=_MOST, clock=clock)
        self._allowed = TtlCache[tuple[bytes, tuple[tuple[str, str], ...]], bool](
            seconds=_PERMISSION_SECONDS, most=_MOST, clock=clock
        )
        self._budget = TokenBuckets[str](
            rate=review_rate, burst=max(5 * review_rate, len(AUDIENCES)), clock=clock
        )

    def admit_to_job(self, caller: Caller, namespace: str, name: str) -> None:
        """Authorize the caller for a job with that name, whether or not it exists.

        Raises:
            Unidentified: no token, or an invalid one.
            NotAllowed: a valid token without permission to `get` the job.
            Busy: the API server is unreachable.
        """
        self._admit(caller, {**_ONE, "namespace": namespace, "name": name})

    def admit_to_logs(self, caller: Caller, namespace: str) -> None:
        """Authorize the caller for logs of pods of a namespace, as `kubectl logs` would.

        Raises:
            Unidentified, NotAllowed, Busy: as in `admit_to_job`.
        """
        self._admit(caller, {**_LOGS, "namespace": namespace})

    def admit_to_all(self, caller: Caller, namespace: str | None) -> None:
        """Authorize the caller to list the jobs of a namespace, or (None) of all.

        Raises:
            Unidentified, NotAllowed, Busy: as in `admit_to_job`.
        """
        self._admit(caller, {**_ALL, "namespace": namespace or ""})

    def _admit(self, caller: Caller, attributes: dict[str, str]) -> None:
        if self._mode is AuthMode.OFF:
            return
        digest, user = self._user(caller)
        asked = (digest, tuple(attributes.items()))
        allowed = self._allowed.get(asked)
        if allowed is None:
            allowed = is_allowed(
                self._review(SUBJECT_ACCESS_REVIEWS, access_review(user, attributes))
            )
            self._allowed.put(asked, allowed)
        if not allowed:
            raise NotAllowed(f"{user.name} may not {_words(attributes)}")

    def _user(self, caller: Caller) -> tuple[bytes, User]:
        """Return the token's digest and its user."""
        scheme, _, token = (caller.authorization or "").partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token:
            raise Unidentified(f"no token: {_HINT}")
        if not caller.encrypted and not _is_here(caller.address):
            # Plain HTTP may have revealed it; its owner should notice at the first try.
            raise NotAllowed("a token is taken over https alone; have this one replaced")
        digest = hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()
        known = self._good.get(digest)
        if known is not None:
            return digest, known
        if self._bad.get(digest):
            raise Unidentified(f"the token does not hold: {_HINT}")
        for audience in AUDIENCES:
            if wait := self._budget.take(source_of(caller.address)):
                raise Busy("too many tokens that are not known, try again", retry_after=wait)
            review = self._review(TOKEN_REVIEWS, token_review(token, audience))
            if (user := reviewed_user(review, audience)) is not None:
                self._good.put(digest, user)
                return digest, user
        self._bad.put(digest, True)
        raise Unidentified(f"the token does not hold: {_HINT}")

    def _review(self, resource: Resource, body: dict[str, Any]) -> dict[str, Any]:
        try:
            return self._kube.create(resource, body, timeout=_REVIEW_SECONDS)
        except ApiError as error:
            raise _away(error) from error


def _away(error: ApiError) -> Busy:
    # Includes 403: this service's own credentials, which the caller cannot fix.
    return Busy(
        f"the API server cannot be asked now ({error.reason or error.code})",
        retry_after=error.retry_after or AWAY_SECONDS,
    )


def _words(attributes: dict[str, str]) -> str:
    resource = "/".join(filter(None, (attributes["resource"], attributes.get("subresource"))))
    where = f"in namespace {attributes['namespace']}" if attributes["namespace"] else "everywhere"
    return " ".join(filter(None, (attributes["verb"], resource, attributes.get("name"), where)))


def _is_here(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False
