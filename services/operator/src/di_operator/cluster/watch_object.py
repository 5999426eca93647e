"""Watches one object by name, and handles every way in which a watch can fail."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import structlog

from di_kube.client import KubeClient
from di_kube.errors import ApiError, Gone, Silent
from di_kube.resources import Resource
from di_operator.process.clock import Clock

log = structlog.get_logger(__name__)

WATCH_SECONDS: Final = 300
WATCH_PAUSE: Final = 1.0
# The documents promise repairs within 10 s of the API server's return.
RETRY: Final = 3.0


async def follow(
    client: KubeClient,
    resource: Resource,
    name: str,
    namespace: str | None,
    *,
    changed: Callable[[], None],
    clock: Clock,
) -> None:
    """Call `changed` whenever the object changes, and whenever a change may have been missed."""
    selector = f"metadata.name={name}"
    version = ""
    failing = False
    while True:
        try:
            if not version:
                _, version = await client.list(resource, namespace, field_selector=selector)
                changed()
            async for kind, body in client.watch(
                resource,
                namespace,
                resource_version=version,
                field_selector=selector,
                timeout_seconds=WATCH_SECONDS,
            ):
                failing = False
                version = body["metadata"]["resourceVersion"]
                if kind != "BOOKMARK":
                    changed()
            # A server that ends every stream at once must not be called in a busy loop.
            await clock.sleep(WATCH_PAUSE)
        except Gone:
            version = ""
            await clock.sleep(WATCH_PAUSE)
        except Silent:
            # The object does not change; what a lost connection missed arrives with the next one.
            await clock.sleep(WATCH_PAUSE)
        except ApiError as error:
            if not failing:
                log.warning("watch failed", kind=resource.kind, name=name, error=str(error))
            failing = True
            changed()
            await clock.sleep(RETRY)
