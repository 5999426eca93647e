"""What the API server is asked about callers: who is it, and may they."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from di_kube.resources import SUBJECT_ACCESS_REVIEWS, TOKEN_REVIEWS


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


def token_review(token: str, audience: str) -> dict[str, Any]:
    """The body that asks whose token it is, if it is meant for that audience."""
    return {
        "apiVersion": TOKEN_REVIEWS.api_version,
        "kind": TOKEN_REVIEWS.kind,
        "spec": {"token": token, "audiences": [audience]},
    }


def reviewed_user(review: Mapping[str, Any], audience: str) -> User | None:
    """The answer to `token_review`; None: the token does not hold for that audience."""
    status = review.get("status") or {}
    # An authenticator that knows no audiences leaves the list out: the token may be meant for
    # anybody.
    if not status.get("authenticated") or audience not in (status.get("audiences") or ()):
        return None
    user = status.get("user") or {}
    return User(
        name=user.get("username", ""),
        uid=user.get("uid", ""),
        groups=tuple(user.get("groups") or ()),
        extra={key: tuple(values) for key, values in (user.get("extra") or {}).items()},
    )


def access_review(user: User, attributes: Mapping[str, str]) -> dict[str, Any]:
    """The body that asks whether RBAC grants the user something.

    Args:
        attributes: `group`, `resource`, `verb`, `namespace`, `name`, ... as a SubjectAccessReview's
            resourceAttributes have them.
    """
    return {
        "apiVersion": SUBJECT_ACCESS_REVIEWS.api_version,
        "kind": SUBJECT_ACCESS_REVIEWS.kind,
        "spec": {
            "user": user.name,
            "uid": user.uid,
            "groups": list(user.groups),
            "extra": {key: list(values) for key, values in user.extra.items()},
            "resourceAttributes": dict(attributes),
        },
    }


def is_allowed(review: Mapping[str, Any]) -> bool:
    """The answer to `access_review`."""
    return (review.get("status") or {}).get("allowed") is True
