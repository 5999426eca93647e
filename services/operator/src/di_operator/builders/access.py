"""How the containers of a pod authenticate to di-server and to each other."""

from __future__ import annotations

import hmac
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Final

from di_api.names import (
    ANNOTATION_JOB_SECRET,
    ANNOTATION_SERVER_CA,
    ENV_JOB_SECRET,
    ENV_SERVER_CA_FILE,
    MARKED,
    SERVER_ACCESS_DIR,
)

VOLUME: Final = "di-server-token"
TOKEN_FILE: Final = "token"
CA_FILE: Final = "ca.crt"
ENV_TOKEN_FILE: Final = "DI_SERVER_TOKEN_FILE"
"""Variable with the path of the token. Programs read the file for each request, because the kubelet
renews it.
"""

HEADER_DRAIN: Final = "DI-Drain-Token"
"""Header of the kubelet's drain request, with `drain_token`. The SDK reads it."""
_JOB: Final = b"secret of job "
_DRAIN: Final = b"drain"

# Seconds; the kubelet renews a token after 80 % of its lifetime.
_LIFETIME: Final = 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """The credentials of a pod: one volume that every container mounts, and the paths in it.

    The files follow changes while the pod runs: the kubelet renews the token, and copies what is
    written to the annotation.
    """

    token_audience: str | None = None
    """Audience of the pod's projected token, which the API server rejects; None: no token."""
    server_ca: str | None = None
    """CA certificates of di-server, PEM; empty while they are unknown; None: none are needed."""
    job_secret: str | None = field(default=None, repr=False)
    """Secret that all pods of the job share; None: no secret."""

    def annotations(self) -> dict[str, str]:
        """Return the annotations: the CA certificates for the kubelet to write to a file, and
        whether there is a secret.
        """
        return {
            **({} if self.server_ca is None else {ANNOTATION_SERVER_CA: self.server_ca}),
            **({} if self.job_secret is None else {ANNOTATION_JOB_SECRET: MARKED}),
        }

    def environment(self) -> dict[str, str]:
        """Return the variables with the paths of the files, and the secret."""
        found = {}
        if self.job_secret is not None:
            found[ENV_JOB_SECRET] = self.job_secret
        if self.token_audience is not None:
            found[ENV_TOKEN_FILE] = f"{SERVER_ACCESS_DIR}/{TOKEN_FILE}"
        if self.server_ca is not None:
            found[ENV_SERVER_CA_FILE] = f"{SERVER_ACCESS_DIR}/{CA_FILE}"
        return found

    def volumes(self) -> list[dict[str, Any]]:
        """Return the volume, or nothing if it would be empty."""
        sources: list[dict[str, Any]] = []
        if self.token_audience is not None:
            token = {
                "audience": self.token_audience,
                "expirationSeconds": _LIFETIME,
                "path": TOKEN_FILE,
            }
            sources.append({"serviceAccountToken": token})
        if self.server_ca is not None:
            field = {"fieldPath": f"metadata.annotations['{ANNOTATION_SERVER_CA}']"}
            sources.append({"downwardAPI": {"items": [{"path": CA_FILE, "fieldRef": field}]}})
        return [{"name": VOLUME, "projected": {"sources": sources}}] if sources else []

    def mounts(self) -> list[dict[str, Any]]:
        """Return the mount of the volume."""
        mount = {"name": VOLUME, "mountPath": SERVER_ACCESS_DIR, "readOnly": True}
        return [mount] if self.volumes() else []


def job_secret(key: bytes, uid: str) -> str:
    """Return the secret of the job with this UID, 64 hexadecimal digits."""
    return hmac.new(key, _JOB + uid.encode(), sha256).hexdigest()


def drain_token(secret: str) -> str:
    """Return the token that a kubelet sends to ask a pod to drain, because it cannot compute a
    proof.

    The job's secret cannot be derived from the token. The SDK computes the same token.
    """
    return hmac.new(secret.encode(), _DRAIN, sha256).hexdigest()
