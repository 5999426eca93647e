"""Who somebody is, and what they may look at: asked of the API server with their own token."""

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
"""After which the API server is asked again: a token that was withdrawn, or a right, is one no
longer than that."""
TRUST_SECONDS: Final = 300.0
"""For which an answer holds while the API server does not give another one."""
_MOST: Final = 1024
_LOOKED_AT: Final = ((DIJOBS, False), (PODS, False), (EVENTS, False), (NODES, True))
"""Kinds, and whether they have no namespace."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Somebody with a token; two requests with the same token are of the same one."""

    token: str

    @property
    def key(self) -> str:
        """What they are told apart by; the token cannot be had from it."""
        return sha256(self.token.encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rights:
    """What somebody may look at, of one namespace or all.

    Attributes:
        user: their name.
        readable: plurals of the kinds that they may list.
    """

    user: str
    readable: frozenset[str]

    @property
    def has_jobs(self) -> bool:
        """Whether there is anything for them here."""
        return DIJOBS.plural in self.readable


def ask(client: SyncKubeClient, scope: str | None) -> Rights:
    """Ask the API server, five cheap requests.

    Args:
        scope: a namespace; None means all.

    Raises:
        Unauthorized: the token is none, or not any more.
        ApiError: it does not answer.
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
        # None, or one: it is about the right to.
        client.list(resource, namespace, field_selector="metadata.name=none")
    except (Forbidden, NotFound):
        return False
    return True


class Known:
    """Rights as of a moment ago. Safe between threads.

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
        """Whether the API server has taken the token, not long ago."""
        until = self._clock() - TRUST_SECONDS
        with self._lock:
            return any(
                key == caller.key and at > until for (key, _), (at, _) in self._found.items()
            )

    def of(self, caller: Caller, scope: str | None) -> Rights:
        """What they may look at.

        Raises:
            Unauthorized: the token is none, or not any more.
            ApiError: the API server does not answer, and has not for a while.
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
