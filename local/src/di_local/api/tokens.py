"""Authentication: tokens of the user who runs the job, and of its pods."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping
from typing import Any, Final

AUDIENCE: Final = "di-server"
_OWNER: Final = "local:owner"
_POD: Final = "authentication.kubernetes.io/pod-"


class Tokens:
    """The tokens of one run, which are valid until it ends."""

    def __init__(self) -> None:
        self.owner: Final = secrets.token_urlsafe(32)
        """The user's token for the API and for di-server, with all permissions."""
        self._of_pods: dict[str, Mapping[str, Any]] = {}

    def issue(self, pod: Mapping[str, Any]) -> str:
        """Return a token that identifies a pod to di-server only."""
        metadata = pod["metadata"]
        account = pod["spec"].get("serviceAccountName") or "default"
        token = secrets.token_urlsafe(32)
        self._of_pods[token] = {
            "username": f"system:serviceaccount:{metadata['namespace']}:{account}",
            "uid": account,
            "groups": ["system:serviceaccounts"],
            "extra": {f"{_POD}name": [metadata["name"]], f"{_POD}uid": [metadata["uid"]]},
        }
        return token

    def is_owner(self, authorization: str | None) -> bool:
        """Return whether an Authorization header has the owner's token."""
        return _is_same(authorization or "", f"Bearer {self.owner}")

    def review(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return the response to a TokenReview."""
        token = str((body.get("spec") or {}).get("token", ""))
        user: Mapping[str, Any] | None = self._of_pods.get(token)
        if user is None and _is_same(token, self.owner):
            user = {"username": _OWNER, "uid": _OWNER}
        if user is None:
            return {**body, "status": {"authenticated": False}}
        status = {"authenticated": True, "audiences": [AUDIENCE], "user": dict(user)}
        return {**body, "status": status}

    @staticmethod
    def may(body: Mapping[str, Any]) -> dict[str, Any]:
        """Return the response to a SubjectAccessReview: the owner has all permissions, pods only
        those for their own job.
        """
        return {**body, "status": {"allowed": (body.get("spec") or {}).get("user") == _OWNER}}


def _is_same(shown: str, expected: str) -> bool:
    # A header and a JSON text can contain a lone surrogate.
    return hmac.compare_digest(shown.encode(errors="replace"), expected.encode())
