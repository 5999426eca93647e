"""The identity a pod shows to di-server: a projected token of its own ServiceAccount."""

from __future__ import annotations

from typing import Any, Final

TOKEN_VOLUME: Final = "di-server-token"
TOKEN_DIR: Final = "/var/run/secrets/di-server"
TOKEN_FILE: Final = "token"
ENV_TOKEN_FILE: Final = "DI_SERVER_TOKEN_FILE"
"""Path of the token; training programs read it anew for each request, the kubelet renews it."""

# Seconds; the kubelet renews a token after four fifths of its life.
_LIFETIME: Final = 3600


def token_volume(audience: str) -> dict[str, Any]:
    """Volume whose token is good for ``audience`` alone, useless against the API server."""
    source = {"audience": audience, "expirationSeconds": _LIFETIME, "path": TOKEN_FILE}
    return {
        "name": TOKEN_VOLUME,
        "projected": {"sources": [{"serviceAccountToken": source}]},
    }


def token_environment() -> dict[str, str]:
    """How containers learn where it is."""
    return {ENV_TOKEN_FILE: f"{TOKEN_DIR}/{TOKEN_FILE}"}


def token_mount() -> dict[str, Any]:
    """Where containers find it."""
    return {"name": TOKEN_VOLUME, "mountPath": TOKEN_DIR, "readOnly": True}
