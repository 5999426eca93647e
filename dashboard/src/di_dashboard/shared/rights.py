"""Identity and permissions of a user, from the API server with the user's own token."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from di_api.field_error import mapping
from di_kube.errors import ApiError, Forbidden, NotFound, Unauthorized
from di_kube.resources import DIJOBS, EVENTS, NODES, PODS, SELF_SUBJECT_REVIEWS, Resource
from di_kube.sync import SyncKubeClient

AGAIN_SECONDS: Final = 45.0
"""Seconds between two checks, and so the maximum delay of a revoked token or permission."""
TRUST_SECONDS: Final = 300.0
"""Seconds for which a result is valid while the API server does not respond."""
_MOST: Final = 1024
_LOOKED_AT: Final = ((DIJOBS, False), (PODS, False), (EVENTS, False), (NODES, True))
"""Kinds, and whether they are cluster-scoped."""


@dataclass(frozen=True, slots=True)
class Caller:
    """A user with a token; two requests with the same token are of the same user."""

    token: str

    @property
    def key(self) -> str:
        """Return a key from which the token cannot be derived."""
        return sha256(self.token.encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rights:
    """The permissions of a user in one namespace or in all.

    Attributes:
        user: name of the user.
        readable: plurals of the kinds that the user can list.
    """

    user: str
    readable: frozenset[str]

    @property
    def has_jobs(self) -> bool:
        """Return whether the user can list jobs."""
        return DIJOBS.plural in self.readable


def ask(client: SyncKubeClient, scope: str | None) -> Rights:
    """Return the permissions from the API server, by five cheap requests.

    Args:
        scope: a namespace; None means all.

    Raises:
        Unauthorized: the token is invalid or expired.
        ApiError: the API server does not respond.
    """
    review = client.create(SELF_SUBJECT_REVIEWS, {})
    user = mapping(mapping(review.get("status")).get("userInfo")).get("username")
    readable = frozenset(
        resource.plural
        for resource, is_everywhere in _LOOKED_AT
        if _may_list(client, resource, None if is_everywhere else scope)
    )
    return Rights(user=str(user or ""), readable=readable)


def _may_list(client: SyncKubeClient, resource: Resource, namespace: str | None) -> bool:
    try:
        # A list with at most one object checks the permission.
        client.list(resource, namespace, field_selector="metadata.name=none")
    except (Forbidden, NotFound):
        return False
    return True


class Known:
    """Cached permissions. Thread-safe.

    Args:
        find: asks the API server; see `ask`.
    """

    def __init__(
        self,
        find: Callable[[Caller, str | None], Rights],
        *,
        clock: Callable[[], float],
    ) -> None:
        self._find = find
        self._clock = clock
        self._lock = threading.Lock()
        self._found: OrderedDict[tuple[str, str | None], tuple[float, Rights]] = OrderedDict()

    def knows(self, caller: Caller) -> bool:
        """Return whether the API server accepted the token recently."""
        until = self._clock() - TRUST_SECONDS
        with self._lock:
            return any(
                key == caller.key and at > until for (key, _), (at, _) in self._found.items()
            )

    def of(self, caller: Caller, scope: str | None) -> Rights:
        """Return the permissions of a user.

        Raises:
            Unauthorized: the token is invalid or expired.
            ApiError: the API server has not responded for a while.
        """
        key, now = (caller.key, scope), self._clock()
        with self._lock:
            at, known = self._found.get(key, (0.0, None))
        if known is not None and now - at < AGAIN_SECONDS:
            return known
        try:
            found = self._find(caller, scope)
        except Unauthorized:
            with self._lock:
                self._found.pop(key, None)
            raise
        except ApiError:
            if known is not None and now - at < TRUST_SECONDS:
                return known
            raise
        with self._lock:
            self._found.pop(key, None)
            self._found[key] = (now, found)
            while len(self._found) > _MOST:
                self._found.popitem(last=False)
        return found
