"""Questions to the API server about callers: who is it, and may they."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from di_api.kube.resources import SUBJECT_ACCESS_REVIEWS, TOKEN_REVIEWS
from di_api.names import GROUP, PLURAL
from di_server.deadline import Deadline
from di_server.model.references import JobRef
from di_server.storage.kube import Kube

AUDIENCE: Final = "di-server"
"""Tokens for anybody else, the API server included, are not accepted: whoever is sent such a
token could use it in its owner's name."""
_SUBRESOURCE: Final = "scale"
"""Not served; it is a name for the permission to use this server on a job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """Who a token belongs to, as the API server says."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def only(self, key: str) -> str | None:
        """The value of an extra that has exactly one."""
        values = self.extra.get(key, ())
        return values[0] if len(values) == 1 else None


class ReviewStore:
    """Creates reviews; errors are the API client's."""

    def __init__(self, *, kube: Kube) -> None:
        self._kube = kube

    def user_of(self, token: str, deadline: Deadline) -> User | None:
        """Whose token it is, None when it does not hold for AUDIENCE."""
        body = {
            "apiVersion": TOKEN_REVIEWS.api_version,
            "kind": TOKEN_REVIEWS.kind,
            "spec": {"token": token, "audiences": [AUDIENCE]},
        }
        review = self._kube.create(TOKEN_REVIEWS, body, timeout=deadline.for_call())
        status = review.get("status") or {}
        # An authenticator that knows no audiences leaves the list out: the token may be meant
        # for anybody.
        if not status.get("authenticated") or AUDIENCE not in (status.get("audiences") or ()):
            return None
        user = status.get("user") or {}
        return User(
            name=user.get("username", ""),
            uid=user.get("uid", ""),
            groups=tuple(user.get("groups") or ()),
            extra={key: tuple(values) for key, values in (user.get("extra") or {}).items()},
        )

    def may(self, user: User, verb: str, ref: JobRef, deadline: Deadline) -> bool:
        """Whether RBAC grants the user `verb` on the job's permission name."""
        spec: dict[str, Any] = {
            "user": user.name,
            "uid": user.uid,
            "groups": list(user.groups),
            "extra": {key: list(values) for key, values in user.extra.items()},
            "resourceAttributes": {
                "group": GROUP,
                "resource": PLURAL,
                "subresource": _SUBRESOURCE,
                "verb": verb,
                "namespace": ref.namespace,
                "name": ref.name,
            },
        }
        body = {
            "apiVersion": SUBJECT_ACCESS_REVIEWS.api_version,
            "kind": SUBJECT_ACCESS_REVIEWS.kind,
            "spec": spec,
        }
        review = self._kube.create(SUBJECT_ACCESS_REVIEWS, body, timeout=deadline.for_call())
        return (review.get("status") or {}).get("allowed") is True
