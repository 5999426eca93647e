"""One watch without a cache, taken up again where it was cut."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from di_kube.client import KubeClient
from di_kube.errors import Unavailable
from di_kube.resources import Resource

Object = dict[str, Any]
_STREAM_SECONDS = 3600


async def follow(
    client: KubeClient, resource: Resource, namespace: str, *, label_selector: str | None = None
) -> AsyncIterator[tuple[str, Object]]:
    """Yield (type, object) for ever, each change once; BOOKMARKs are passed on.

    The API server cuts off a watcher that cannot follow a burst; the next stream goes on from the
    last version seen.

    Raises:
        ApiError: the watch is refused, or that version is gone.
    """
    version = ""
    while True:
        stream = client.watch(
            resource,
            namespace,
            resource_version=version,
            label_selector=label_selector,
            send_initial_events=not version,
            timeout_seconds=_STREAM_SECONDS,
        )
        try:
            async for kind, body in stream:
                # The initial ADDED events come in no order; their end is a BOOKMARK.
                if version or kind == "BOOKMARK":
                    version = body["metadata"]["resourceVersion"]
                yield kind, body
        except Unavailable:
            if not version:
                raise
