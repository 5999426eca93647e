"""TokenReviews and SubjectAccessReviews of callers."""

from __future__ import annotations

from typing import Final

from di_api.names import GROUP, PLURAL
from di_kube.resources import SUBJECT_ACCESS_REVIEWS, TOKEN_REVIEWS
from di_kube.reviews import User, access_review, is_allowed, reviewed_user, token_review
from di_server.deadline import Deadline
from di_server.model.references import JobRef
from di_server.storage.kube import Kube

AUDIENCE: Final = "di-server"
"""Tokens for any other audience, the API server included, are refused: a service that gets such a
token could use it in its owner's name.
"""
_SUBRESOURCE: Final = "scale"
"""Not a served subresource, but the name of the permission to use this server on a job."""


class ReviewStore:
    """Creates reviews; errors are the API client's."""

    def __init__(self, *, kube: Kube) -> None:
        self._kube = kube

    def user_of(self, token: str, deadline: Deadline) -> User | None:
        """Return the user of a token, None if it is not valid for AUDIENCE."""
        body = token_review(token, AUDIENCE)
        review = self._kube.create(TOKEN_REVIEWS, body, timeout=deadline.for_call())
        return reviewed_user(review, AUDIENCE)

    def may(self, user: User, verb: str, ref: JobRef, deadline: Deadline) -> bool:
        """Return whether RBAC grants the user `verb` on the job's permission name."""
        body = access_review(
            user,
            {
                "group": GROUP,
                "resource": PLURAL,
                "subresource": _SUBRESOURCE,
                "verb": verb,
                "namespace": ref.namespace,
                "name": ref.name,
            },
        )
        review = self._kube.create(SUBJECT_ACCESS_REVIEWS, body, timeout=deadline.for_call())
        return is_allowed(review)
