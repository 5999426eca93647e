"""How the containers of a pod know di-server and each other, and are known by them."""

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
"""Path of the token; training programs read it anew for each request, the kubelet renews it."""

HEADER_DRAIN: Final = "DI-Drain-Token"
"""Header of the kubelet's request to drain, with `drain_token`. Read by the SDK."""
_JOB: Final = b"secret of job "
_DRAIN: Final = b"drain"

# Seconds; the kubelet renews a token after four fifths of its life.
_LIFETIME: Final = 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """What a pod is given: a volume that every container mounts, and where the files are.

    All of it follows changes while the pod runs: the kubelet brings new tokens, and what is
    written to the annotation.
    """

    token_audience: str | None = None
    """Whom the pod's projected token is for, useless against the API server; None: no token."""
    server_ca: str | None = None
    """Authorities to know di-server by, PEM; empty while they are not known yet, None: none."""
    job_secret: str | None = field(default=None, repr=False)
    """What all pods of the job know; None: nothing."""

    def annotations(self) -> dict[str, str]:
        """What the kubelet makes the file of authorities of, and whether there is a secret."""
        return {
            **({} if self.server_ca is None else {ANNOTATION_SERVER_CA: self.server_ca}),
            **({} if self.job_secret is None else {ANNOTATION_JOB_SECRET: MARKED}),
        }

    def environment(self) -> dict[str, str]:
        """How containers learn where the files are, and the secret."""
        found = {}
        if self.job_secret is not None:
            found[ENV_JOB_SECRET] = self.job_secret
        if self.token_audience is not None:
            found[ENV_TOKEN_FILE] = f"{SERVER_ACCESS_DIR}/{TOKEN_FILE}"
        if self.server_ca is not None:
            found[ENV_SERVER_CA_FILE] = f"{SERVER_ACCESS_DIR}/{CA_FILE}"
        return found

    def volumes(self) -> list[dict[str, Any]]:
        """The volume, if there is anything to put into it."""
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
        """Where containers find it."""
        mount = {"name": VOLUME, "mountPath": SERVER_ACCESS_DIR, "readOnly": True}
        return [mount] if self.volumes() else []


def job_secret(key: bytes, uid: str) -> str:
    """Return the secret of the job with this UID, 64 hexadecimal digits."""
    return hmac.new(key, _JOB + uid.encode(), sha256).hexdigest()


def drain_token(secret: str) -> str:
    """Return what a kubelet shows that asks a pod to drain: it cannot make a proof.

    The job's secret cannot be had from it. The SDK makes the same.
    """
    return hmac.new(secret.encode(), _DRAIN, sha256).hexdigest()
