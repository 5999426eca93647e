"""One object that is followed by its name, through every way a watch can fail."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import pytest
from structlog.testing import capture_logs

from di_kube.errors import ApiError, Gone, Silent, Unavailable
from di_kube.resources import SECRETS
from di_operator.cluster.watch_object import RETRY, WATCH_PAUSE, follow
from tests.unit.operator import virtual_time
from tests.unit.operator.virtual_time import VirtualClock

Object = dict[str, Any]


class Api:
    """Streams of events, each with its end; after the last one nothing happens."""

    def __init__(self, *streams: list[str | type[ApiError]]) -> None:
        self.streams = iter(streams)
        self.asked: list[str] = []
        self.version = 0

    async def list(self, *_: Any, **options: Any) -> tuple[list[Any], str]:
        assert options == {"field_selector": "metadata.name=tls"}
        self.asked.append("list")
        self.version += 100
        return [], str(self.version)

    async def watch(self, *_: Any, **options: Any) -> AsyncIterator[tuple[str, Object]]:
        self.asked.append(options["resource_version"])
        for event in next(self.streams, ["wait"]):
            if event == "wait":
                await asyncio.Event().wait()
            elif isinstance(event, str):
                self.version += 1
                yield event, {"metadata": {"resourceVersion": str(self.version)}}
            else:
                raise event(kind="Secret")


async def followed(api: Api, seconds: float) -> int:
    """How often a change was reported by then."""
    changes: list[None] = []
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await follow(
                api,  # type: ignore[arg-type]  # the part of the client it uses
                SECRETS,
                "tls",
                "ns",
                changed=lambda: changes.append(None),
                clock=VirtualClock(),
            )
    return len(changes)


@pytest.mark.parametrize(
    ("stream", "pause", "asked", "changes"),
    [
        pytest.param(["MODIFIED"], WATCH_PAUSE, ["list", "100", "101"], 2, id="a stream that ends"),
        pytest.param(["BOOKMARK"], WATCH_PAUSE, ["list", "100", "101"], 1, id="a bookmark"),
        pytest.param([Silent], WATCH_PAUSE, ["list", "100", "100"], 1, id="a silent stream"),
        # What happened meanwhile is unknown.
        pytest.param(["MODIFIED", Gone], WATCH_PAUSE, ["list", "100", "list", "201"], 3, id="gone"),
        pytest.param([Unavailable], RETRY, ["list", "100", "100"], 2, id="no answer"),
    ],
)
@virtual_time.in_virtual_time
async def test_a_watch_goes_on_after_a_pause_where_it_ended(
    stream: list[str | type[ApiError]], pause: float, asked: list[str], changes: int
) -> None:
    api = Api(stream)
    assert await followed(api, pause + 0.1) == changes
    assert api.asked == asked
    api = Api(stream)
    await followed(api, pause - 0.1)
    assert api.asked == ["list", "100"]


@virtual_time.in_virtual_time
async def test_a_watch_that_fails_again_and_again_is_logged_once() -> None:
    with capture_logs() as logs:
        await followed(Api([Unavailable], [Unavailable], ["MODIFIED"], [Unavailable]), 60.0)
    assert [entry["event"] for entry in logs] == ["watch failed"] * 2
