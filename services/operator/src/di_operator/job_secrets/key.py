"""The key of all job secrets: stored in a Secret beside the operator, created once and never
changed.
"""

from __future__ import annotations

import asyncio
import base64
import secrets
from collections.abc import Callable
from typing import Any, Final

import structlog

from di_api import names
from di_kube.client import KubeClient
from di_kube.errors import AlreadyExists, ApiError, Forbidden, NotFound
from di_kube.resources import SECRETS
from di_operator.certificates.rotation import secret_value
from di_operator.process.clock import Clock

log = structlog.get_logger(__name__)

KEY: Final = "key"
"""Key in the Secret's data."""
KEY_BYTES: Final = 32
RETRY_SECONDS: Final = 3.0
FORBIDDEN_TIMES: Final = 10
"""Number of 403 responses after which pods are created without a secret: a new Role can take effect
late, and an earlier chart has none.
"""


class UnusableKey(Exception):
    """The Secret contains no key."""


class SecretKey:
    """Reads the key, or creates it if there is none; every reconcile waits until it is known."""

    def __init__(
        self,
        client: KubeClient,
        *,
        namespace: str,
        secret: str,
        clock: Clock,
        fresh: Callable[[], bytes] = lambda: secrets.token_bytes(KEY_BYTES),
    ) -> None:
        """Prepare; nothing is read yet.

        Args:
            secret: name of the Secret.
            fresh: returns a new key.
        """
        self._client = client
        self._namespace = namespace
        self._secret = secret
        self._clock = clock
        self._fresh = fresh
        self._key: bytes | None = None
        self._is_known = asyncio.Event()

    async def __call__(self) -> bytes | None:
        """Return the key once it is known; None if it cannot be read."""
        await self._is_known.wait()
        return self._key

    async def run(self) -> None:
        """Read or create the key, then wait until cancelled; retries after errors of the API
        server.
        """
        refusals = 0
        while not self._is_known.is_set():
            try:
                self._key = await self._read() or await self._make()
            except (Forbidden, UnusableKey) as error:
                refusals += 1
                log.warning("no key for the secrets of jobs", secret=self._secret, error=str(error))
                if refusals >= FORBIDDEN_TIMES:
                    self._is_known.set()
            except ApiError as error:
                log.warning("Secret not read", name=self._secret, error=str(error))
            else:
                self._is_known.set()
            if not self._is_known.is_set():
                await self._clock.sleep(RETRY_SECONDS)
        # A leader stops when one of its parts returns.
        await asyncio.Event().wait()

    async def _read(self) -> bytes | None:
        try:
            found = await self._client.get(SECRETS, self._secret, self._namespace)
        except NotFound:
            return None
        key = secret_value(found, KEY)
        if len(key) < KEY_BYTES:
            raise UnusableKey(f"{KEY} must have {KEY_BYTES} bytes at least")
        return key

    async def _make(self) -> bytes | None:
        key = self._fresh()
        try:
            await self._client.create(SECRETS, self._body(key), self._namespace)
        except AlreadyExists:
            return await self._read()
        log.info("key of the secrets of jobs made", secret=self._secret)
        return key

    def _body(self, key: bytes) -> dict[str, Any]:
        return {
            "apiVersion": "v1",
            "kind": "Secret",
            "type": "Opaque",
            "metadata": {
                "name": self._secret,
                "namespace": self._namespace,
                "labels": {"app.kubernetes.io/managed-by": names.OPERATOR_NAME},
            },
            "data": {KEY: base64.b64encode(key).decode()},
        }
