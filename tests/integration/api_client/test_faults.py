"""Both API clients against a server that misbehaves on command (the real one never would)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from aiohttp import web

from di_kube import wire
from di_kube.client import KubeClient
from di_kube.errors import ApiError, Invalid, Throttled, Unavailable
from di_kube.resources import CONFIGMAPS
from di_kube.sync import SyncKubeClient
from tests.fakes.misbehaving import MisbehavingServer, Reply, answer, refuse
from tests.waiting import wait_until

Get = Callable[..., Any]


class Served:
    """A misbehaving server in a thread of its own, and one of the clients in front of it."""

    def __init__(self, flavour: str) -> None:
        self.server = MisbehavingServer()
        self._flavour = flavour
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._done = asyncio.Event()
        self._thread = threading.Thread(target=self._serve)

    def __enter__(self) -> Served:
        self._thread.start()
        assert self._ready.wait(60)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._done.set)
        self._thread.join(60)

    def _serve(self) -> None:
        async def main() -> None:
            async with self.server:
                self._ready.set()
                await self._done.wait()

        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(main())

    def get(self, *replies: Reply, timeout: float | None = None) -> Any:
        """Read a ConfigMap and let the server reply so."""
        self.server.other_script = list(replies)
        if self._flavour == "sync":
            with SyncKubeClient(config=self.server.config, timeout=60) as client:
                return client.get(CONFIGMAPS, "a", "ns", timeout=timeout)

        async def main() -> Any:
            async with KubeClient(config=self.server.config, timeout=60) as client:
                return await client.get(CONFIGMAPS, "a", "ns", timeout=timeout)

        return asyncio.run(main())


@pytest.fixture(params=["async", "sync"])
def served(request: pytest.FixtureRequest) -> Iterator[Served]:
    with Served(request.param) as served:
        yield served


async def hang(request: web.Request) -> web.StreamResponse:
    await asyncio.Event().wait()
    return answer({})


async def drip(request: web.Request) -> web.StreamResponse:
    """An answer of ten bytes a second that takes a day."""
    stream = web.StreamResponse(headers={"Content-Length": "864000"})
    await stream.prepare(request)
    for _ in range(864_000):
        await stream.write(b" ")
        await asyncio.sleep(0.1)
    return stream


async def drop(request: web.Request) -> web.StreamResponse:
    assert request.transport is not None
    request.transport.abort()
    return answer({})


async def half(request: web.Request) -> web.StreamResponse:
    stream = web.StreamResponse(headers={"Content-Length": "1000"})
    await stream.prepare(request)
    await stream.write(b'{"metadata"')
    assert request.transport is not None
    request.transport.close()
    return stream


def raw(body: bytes, code: int = 200) -> Reply:
    async def reply(request: web.Request) -> web.StreamResponse:
        return web.Response(body=body, status=code)

    return reply


@pytest.mark.parametrize("reply", [hang, drip])
def test_a_request_ends_with_its_time_out(served: Served, reply: Reply) -> None:
    with pytest.raises(Unavailable) as caught:
        served.get(reply, timeout=0.5)
    assert caught.value.reason == "Timeout"


@pytest.mark.parametrize("reply", [drop, half])
def test_a_broken_connection_is_no_answer(served: Served, reply: Reply) -> None:
    # An idempotent GET may be sent once more on a fresh connection; it breaks again.
    with pytest.raises(Unavailable) as caught:
        served.get(reply, reply)
    assert (caught.value.code, caught.value.reason) == (0, "ConnectionError")


@pytest.mark.parametrize("body", [b"", b"<html>", b"[1]", b'"text"', b"{", b"\xff"])
def test_an_answer_that_is_no_object(served: Served, body: bytes) -> None:
    with pytest.raises(Unavailable) as caught:
        served.get(raw(body))
    assert caught.value.reason == "BadBody"


@pytest.mark.parametrize(
    "body", [b"", b"<html>Bad Gateway</html>", b"[1]", b"\xff", b'{"code":"x"}']
)
def test_an_error_whose_body_is_not_a_status(served: Served, body: bytes) -> None:
    with pytest.raises(Unavailable) as caught:
        served.get(raw(body, 502))
    assert caught.value.code == 502


def test_the_wait_the_server_asks_for_is_told(served: Served) -> None:
    with pytest.raises(Throttled) as caught:
        served.get(refuse(429, "TooManyRequests", {"Retry-After": "7"}))
    assert caught.value.retry_after == 7
    with pytest.raises(Unavailable) as caught_unavailable:
        served.get(refuse(503, "ServiceUnavailable"))
    assert caught_unavailable.value.retry_after is None


def test_a_redirect_is_not_followed_with_our_credentials(served: Served) -> None:
    elsewhere = {"Location": "http://127.0.0.1:1/elsewhere"}
    with pytest.raises(ApiError) as caught:
        served.get(refuse(307, "TemporaryRedirect", elsewhere))
    assert caught.value.code == 307


def test_a_body_beyond_the_bound_is_not_read(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire, "MAX_BODY", 1000)
    with pytest.raises(Unavailable, match="larger than 1000 bytes"):
        served.get(raw(b'{"a": "' + b"x" * 2000 + b'"}'))


def test_a_client_works_on_after_every_fault(served: Served) -> None:
    config = served.server.config
    good = refuse(422, "Invalid")
    served.server.other_script = [hang, refuse(500, "InternalError"), raw(b"{"), good]
    with SyncKubeClient(config=config, timeout=60, connections=1) as client:
        for seconds in (2, None, None):  # only the first of them hangs
            with pytest.raises(Unavailable):
                client.get(CONFIGMAPS, "a", "ns", timeout=seconds)
        with pytest.raises(Invalid):
            client.get(CONFIGMAPS, "a", "ns")


def test_waiting_for_a_connection_is_not_the_requests_own_time() -> None:
    async def slow(request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(0.1)
        return answer({"metadata": {}})

    async def main() -> None:
        async with MisbehavingServer() as server:
            server.other_script = [slow] * 30
            async with KubeClient(config=server.config, connections=1, timeout=2) as client:
                # 30 requests over one connection take three seconds in all.
                made = await asyncio.gather(
                    *(client.create(CONFIGMAPS, {"metadata": {}}, "ns") for _ in range(30))
                )
                assert len(made) == 30

    asyncio.run(main())


def test_threads_wait_for_a_connection_no_longer_than_their_time() -> None:
    answered = threading.Event()

    async def answer_later(request: web.Request) -> web.StreamResponse:
        await asyncio.to_thread(answered.wait)
        return answer({})

    with Served("sync") as served:
        served.server.other_script = [answer_later]
        with SyncKubeClient(config=served.server.config, connections=1) as client:
            get = partial(client.get, CONFIGMAPS, "a", "ns")
            first = threading.Thread(target=partial(get, timeout=600))
            first.start()
            wait_until(lambda: not served.server.other_script)
            try:
                with pytest.raises(Unavailable):
                    get(timeout=0.3)
                assert first.is_alive(), "the first gave the connection back"
            finally:
                answered.set()
            first.join()


def test_a_stream_is_asked_for_as_it_is() -> None:
    # A real server compresses one that begins with all objects, and each later event with it.
    accepted: list[str | None] = []

    async def reply(request: web.Request) -> web.StreamResponse:
        accepted.append(request.headers.get("Accept-Encoding"))
        return await refuse(403, "Forbidden")(request)

    async def main() -> None:
        async with (
            MisbehavingServer(streaming_lists=True) as server,
            KubeClient(config=server.config) as client,
        ):
            server.watch_script = [reply]
            stream = client.watch(
                CONFIGMAPS, "ns", resource_version="", timeout_seconds=5, send_initial_events=True
            )
            with pytest.raises(ApiError):
                await anext(stream)

    asyncio.run(main())
    assert accepted == [None]
