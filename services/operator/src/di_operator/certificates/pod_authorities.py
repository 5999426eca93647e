"""The CA certificates by which pods verify di-server, read from a Secret of any origin."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

import structlog

from di_certs.inspection import join_certificates, split_certificates
from di_kube.client import KubeClient
from di_kube.errors import ApiError, NotFound
from di_kube.resources import SECRETS
from di_operator.certificates.rotation import CA_CERTIFICATE, secret_value
from di_operator.cluster.watch_object import RETRY, follow
from di_operator.process.clock import Clock

log = structlog.get_logger(__name__)

MAX_BYTES: Final = 16 * 1024
"""Maximum size in bytes: every pod carries them in an annotation, and all annotations of an object
share 256 KiB.
"""


class ServerAuthorities:
    """Watches ca.crt of the Secret; unusable content keeps the previous value."""

    def __init__(
        self,
        client: KubeClient,
        *,
        namespace: str,
        secret: str,
        on_change: Callable[[], None],
        clock: Clock,
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._secret = secret
        self._on_change = on_change
        self._clock = clock
        self._known = ""

    def __call__(self) -> str:
        """Return the certificates as PEM; empty until they are known."""
        return self._known

    async def run(self) -> None:
        """Watch the Secret until cancelled; retries after errors of the API server."""
        changed = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            group.create_task(
                follow(
                    self._client,
                    SECRETS,
                    self._secret,
                    self._namespace,
                    changed=changed.set,
                    clock=self._clock,
                )
            )
            group.create_task(self._keep(changed))

    async def _keep(self, changed: asyncio.Event) -> None:
        while True:
            await changed.wait()
            changed.clear()
            try:
                self._take(await self._client.get(SECRETS, self._secret, self._namespace))
            except NotFound:
                # Deleted: its owner creates it again.
                continue
            except ApiError as error:
                log.warning("Secret not read", name=self._secret, error=str(error))
                await self._clock.sleep(RETRY)
                changed.set()

    def _take(self, secret: dict[str, Any]) -> None:
        found = join_certificates(split_certificates(secret_value(secret, CA_CERTIFICATE)))
        if not 0 < len(found) <= MAX_BYTES:
            log.warning(
                "pods are not told whom to trust",
                secret=self._secret,
                reason=f"{CA_CERTIFICATE} holds no certificates of {MAX_BYTES} bytes at most",
            )
            return
        if (known := found.decode()) != self._known:
            self._known = known
            self._on_change()
