"""The faultproxy: a reverse proxy between one component and a real API server.

It numbers every request by what it is about, and does what the plan says when its moment comes.
The component reaches it by plain HTTP; the API server sees it as the component's user agent, so
that the audit log tells replicas apart.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Sequence
from http import HTTPStatus
from types import TracebackType
from typing import Self, assert_never

import aiohttp
import orjson
from aiohttp import web
from yarl import URL

from di_kube.config import KubeConfig
from tools.faults.journal import Done, Journal
from tools.faults.moments import Counts, matches
from tools.faults.plan import (
    EACH,
    Empty,
    Fault,
    Freeze,
    Kill,
    Lose,
    Notice,
    Refuse,
    Request,
    Rewind,
    Slow,
    Stop,
    StreamAction,
    Truncate,
)
from tools.faults.replies import abort, refusal, since
from tools.faults.stream import Broken, History, Stream, past

# A component that has its answer gets this long to draw its conclusions before it is killed.
_LAST_THOUGHTS = 0.03
_PASSED_ON = ("Content-Type", "Accept")


class FaultProxy:
    """Between one component and the API server of ``beyond``; an async context manager.

    Args:
        beyond: the API server.
        component: becomes the user agent in the audit log.
        faults: what is to go wrong.
        end: called to kill, stop or freeze the component, as the action says.
        clock: monotonic seconds, for the journal.
    """

    def __init__(
        self,
        beyond: KubeConfig,
        *,
        component: str,
        faults: Sequence[Fault] = (),
        end: Callable[[Kill | Stop | Freeze], None] = lambda _: None,
        clock: Callable[[], float],
    ) -> None:
        self._beyond = beyond
        self._component = component
        self._faults = list(faults)
        self._end = end
        self._clock = clock
        self._counts = Counts()
        self._histories: dict[str, History] = defaultdict(History)
        self._storms: list[tuple[Fault, float]] = []
        self._empty: dict[str, int] = {}
        self._rewind: Rewind | None = None
        self._watches: set[asyncio.Transport] = set()
        self._life = 0
        self._alive = asyncio.Event()
        self._alive.set()
        self._session: aiohttp.ClientSession | None = None
        self._runner: web.AppRunner | None = None
        self.journal = Journal()
        self.url = ""
        self.under_way = 0
        """Requests that the API server has not answered yet, watches not counted."""

    async def __aenter__(self) -> Self:
        connector = aiohttp.TCPConnector(limit=0, ssl=self._beyond.ssl_context())
        self._session = aiohttp.ClientSession(connector=connector, auto_decompress=True)
        app = web.Application(client_max_size=1 << 24)
        app.router.add_route("*", "/{path:.*}", self._handle)
        # A killed component must not leave its watches behind in us.
        self._runner = web.AppRunner(
            app, access_log=None, shutdown_timeout=0.1, handler_cancellation=True
        )
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        host, port = self._runner.addresses[0][:2]
        self.url = f"http://{host}:{port}"
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
        if self._session is not None:
            await self._session.close()

    def add(self, fault: Fault) -> None:
        """Have one thing more go wrong; its moment counts from the start all the same."""
        self._faults.append(fault)

    def cut(self) -> None:
        """Break every watch there is now."""
        for transport in self._watches:
            transport.abort()

    def revive(self) -> None:
        """Let requests through again: the component has been started anew."""
        self._life += 1
        self._alive.set()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        life = self._life
        await self._alive.wait()
        if life != self._life:
            return abort(request)
        asked = self._counts.request(request.method, request.path, request.query, body)
        fault = self._fault(asked)
        if asked.verb == "watch" and fault is None:
            return await self._follow(request, asked)
        return await self._treat(request, asked, body, fault)

    async def _follow(self, request: web.Request, asked: Request) -> web.StreamResponse:
        transport = request.transport
        if transport is None:
            return web.Response()
        self._watches.add(transport)
        try:
            return await self._watch(request, asked)
        except ConnectionError:
            # Killed in the moment it asked.
            return abort(request)
        finally:
            self._watches.discard(transport)

    def _fault(self, moment: Request | Notice) -> Fault | None:
        now = self._clock()
        for fault in self._faults:
            if matches(fault.at, moment):
                if fault.at.nth != EACH:
                    self._faults.remove(fault)
                self.journal.met.append(fault)
                if fault.seconds:
                    self._storms.append((fault, now + fault.seconds))
                return fault
        for fault, until in self._storms:
            if now < until and matches(fault.during or _every(fault.at), moment):
                return fault
        return None

    async def _treat(
        self, request: web.Request, asked: Request, body: bytes, fault: Fault | None
    ) -> web.StreamResponse:
        action = fault.do if fault is not None else None
        if isinstance(action, Refuse | Lose) and not getattr(action, "carried_out", False):
            self.journal.requests.append(Done(request=asked, code=0, at=self._clock()))
            if isinstance(action, Lose):
                return abort(request)
            return refusal(action, asked)
        if isinstance(action, Kill):
            self._alive.clear()
        if isinstance(action, Stop | Freeze) and not action.answered:
            self._end(action)
        # What the API server has begun to do it ends, also when the component dies meanwhile.
        answer = await asyncio.shield(self._forward(request, asked, body))
        match action:
            case Kill(answered=answered, rewind=rewind):
                self._rewind = rewind
                if answered:
                    asyncio.get_running_loop().call_later(_LAST_THOUGHTS, self._end, action)
                    return answer
                self._end(action)
                return abort(request)
            case Stop(answered=True) | Freeze(answered=True):
                asyncio.get_running_loop().call_later(_LAST_THOUGHTS, self._end, action)
            case Lose():
                return abort(request)
            case Truncate():
                whole = answer.body
                assert isinstance(whole, bytes)
                answer.body = whole[: len(whole) // 2]
            case Slow(seconds=seconds):
                await asyncio.sleep(seconds)
            case _:
                pass
        return answer

    async def _forward(self, request: web.Request, asked: Request, body: bytes) -> web.Response:
        assert self._session is not None
        self.under_way += 1
        try:
            async with self._session.request(
                request.method,
                self._url(request.raw_path),
                data=body,
                headers=self._headers(request),
            ) as answer:
                raw, code = await answer.read(), answer.status
                headers = {
                    key: answer.headers[key]
                    for key in ("Content-Type", "Retry-After")
                    if key in answer.headers
                }
        except aiohttp.ClientError as error:
            return web.Response(status=HTTPStatus.BAD_GATEWAY, text=str(error))
        finally:
            self.under_way -= 1
        self.journal.requests.append(Done(request=asked, code=code, at=self._clock()))
        return web.Response(status=code, body=raw, headers=headers)

    async def _watch(self, request: web.Request, asked: Request) -> web.StreamResponse:
        what = asked.what
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        self.journal.requests.append(Done(request=asked, code=200, at=self._clock()))
        if self._empty.get(what, 0) > 0:
            self._empty[what] -= 1
            await response.prepare(request)
            return response
        path = request.raw_path
        rewind = self._rewind
        beginning = request.query.get("sendInitialEvents") == "true"
        stale = beginning and rewind is not None and what in rewind.what
        if stale and rewind is not None:
            objects, version = self._histories[what].state(rewind.back)
            await response.prepare(request)
            await response.write(past(objects, version))
            await asyncio.sleep(rewind.seconds)
            path = since(request, version)
        return await self._pour(request, response, what=what, path=path)

    async def _pour(
        self, request: web.Request, response: web.StreamResponse, *, what: str, path: str
    ) -> web.StreamResponse:
        """Let the API server's stream through, event by event."""
        assert self._session is not None
        stream: Stream | None = None
        try:
            async with self._session.get(
                self._url(path),
                headers=self._headers(request),
                timeout=aiohttp.ClientTimeout(total=None),
                max_line_size=1 << 16,
            ) as source:
                if source.status != HTTPStatus.OK and not response.prepared:
                    return web.Response(
                        status=source.status,
                        body=await source.read(),
                        content_type="application/json",
                    )
                if not response.prepared:
                    await response.prepare(request)
                stream = Stream(
                    response=response,
                    notice=lambda kind, body: self._notice(what, kind, dict(body)),
                    decide=self._decide,
                )
                rest = b""
                async for chunk in source.content.iter_any():
                    *lines, rest = (rest + chunk).split(b"\n")
                    for line in filter(None, lines):
                        if not await self._pass(stream, what, line + b"\n"):
                            return response
        except (Broken, aiohttp.ClientError, ConnectionError):
            abort(request)
        finally:
            if stream is not None:
                stream.close()
        return response

    async def _pass(self, stream: Stream, what: str, line: bytes) -> bool:
        event = orjson.loads(line)
        self._histories[what].add(event["type"], event["object"])
        return await stream.take(line)

    def _notice(self, what: str, kind: str, body: dict[str, object]) -> Notice:
        notice = self._counts.notice(what, kind, body)
        self.journal.notices.append(notice)
        return notice

    def _decide(self, notice: Notice) -> StreamAction | None:
        fault = self._fault(notice)
        if fault is None:
            return None
        match fault.do:
            case Kill() | Refuse() | Lose() | Truncate() | Slow() | Stop() | Freeze():
                raise ValueError(f"{fault.do} is for requests, {notice} is none")
            case Empty(streams=streams):
                self._empty[notice.what] = streams
                return fault.do
            case action:
                return action
        assert_never(fault.do)

    def _url(self, raw_path: str) -> URL:
        return URL(self._beyond.server + raw_path, encoded=True)

    def _headers(self, request: web.Request) -> dict[str, str]:
        passed = {key: request.headers[key] for key in _PASSED_ON if key in request.headers}
        authorization = self._beyond.authorization()
        if authorization is not None:
            passed["Authorization"] = authorization
        return passed | {"User-Agent": self._component}


def _every(moment: Request | Notice) -> Request | Notice:
    if isinstance(moment, Request):
        return Request(verb=moment.verb, what=moment.what, name=moment.name, nth=EACH)
    return Notice(what=moment.what, kind=moment.kind, name=moment.name, nth=EACH)
