"""Who a token belongs to: to the person who runs the job, or to one of its pods."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping
from typing import Any, Final

AUDIENCE: Final = "di-server"
_OWNER: Final = "local:owner"
_POD: Final = "authentication.kubernetes.io/pod-"


class Tokens:
    """The tokens of one run; they hold until it ends."""

    def __init__(self) -> None:
        self.owner: Final = secrets.token_urlsafe(32)
        """For the API and for di-server: may do everything."""
        self._of_pods: dict[str, Mapping[str, Any]] = {}

    def issue(self, pod: Mapping[str, Any]) -> str:
        """A token by which di-server, and nobody else, knows a pod."""
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
        """Whether an Authorization header has the owner's token."""
        return _is_same(authorization or "", f"Bearer {self.owner}")

    def review(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """The answer to a TokenReview."""
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
        """The answer to a SubjectAccessReview: the owner may, pods may nothing beyond their own."""
        return {**body, "status": {"allowed": (body.get("spec") or {}).get("user") == _OWNER}}


def _is_same(shown: str, expected: str) -> bool:
    # A header and a JSON text may hold half of a pair of surrogates.
    return hmac.compare_digest(shown.encode(errors="replace"), expected.encode())
