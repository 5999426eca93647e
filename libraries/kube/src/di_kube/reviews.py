"""Bodies of TokenReviews and SubjectAccessReviews, and their results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from di_kube.resources import SUBJECT_ACCESS_REVIEWS, TOKEN_REVIEWS


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """The user of a token, according to the API server."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def only(self, key: str) -> str | None:
        """Return the value of an extra with exactly one value."""
        values = self.extra.get(key, ())
        return values[0] if len(values) == 1 else None


def token_review(token: str, audience: str | None) -> dict[str, Any]:
    """Return the body of a TokenReview for a token and an audience; None: the API server's own."""
    return {
        "apiVersion": TOKEN_REVIEWS.api_version,
        "kind": TOKEN_REVIEWS.kind,
        "spec": {"token": token, **({} if audience is None else {"audiences": [audience]})},
    }


def reviewed_user(review: Mapping[str, Any], audience: str | None) -> User | None:
    """Return the user of the response to a `token_review`; None: the token is not valid for that
    audience.
    """
    status = review.get("status") or {}
    if not status.get("authenticated"):
        return None
    # An authenticator without audiences leaves the list out: the token may be meant for any
    # service.
    if audience is not None and audience not in (status.get("audiences") or ()):
        return None
    user = status.get("user") or {}
    return User(
        name=user.get("username", ""),
        uid=user.get("uid", ""),
        groups=tuple(user.get("groups") or ()),
        extra={key: tuple(values) for key, values in (user.get("extra") or {}).items()},
    )


def access_review(user: User, attributes: Mapping[str, str]) -> dict[str, Any]:
    """Return the body of a SubjectAccessReview for the user.

    Args:
        attributes: `group`, `resource`, `verb`, `namespace`, `name`, ... as in a
            SubjectAccessReview's resourceAttributes.
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
    """Return whether a SubjectAccessReview's response allows the access."""
    return (review.get("status") or {}).get("allowed") is True
