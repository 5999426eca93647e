"""An API server's read side, with as many copies of one finished job as wanted.

Fifty thousand pods cannot be made on a real API server in the time of a benchmark. What an
operator holds in memory depends on the objects and on how they are read, so copies of objects
that a real API server has written, streamed and paged as it does, tell the same.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import islice
from typing import Any

from aiohttp import web

from di_kube.resources import DIJOBS, PODS
from di_kube.wire import METADATA_LIST
from tools.benchmarks.servers.leases import Leases

Object = dict[str, Any]
# Every copy has it: nothing ever changes here.
_VERSION = "1000000"
_CHUNK = 500


class SyntheticLoad:
    """Serves `copies` of a job and of each of its pods, Leases that can be written, and empty
    collections of all else.

    Attributes:
        leases: those that operators wrote.
        lists: how often each plural was read to its last page.
    """

    def __init__(self, job: Object, pods: Sequence[Object], copies: int) -> None:
        self._name = job["metadata"]["name"]
        samples = {DIJOBS.plural: [job], PODS.plural: pods}
        self._texts = {plural: [*map(_text, found)] for plural, found in samples.items()}
        self._heads = {plural: [*map(_head, found)] for plural, found in samples.items()}
        self._uids = [one["metadata"]["uid"] for one in (job, *pods)]
        self._copies = copies
        self.leases = Leases()
        self.lists: Counter[str] = Counter()
        self._is_over = asyncio.Event()

    @asynccontextmanager
    async def serve(self, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
        """Serve on a free port of this machine; the value is the URL."""
        app = web.Application()
        self.leases.add_to(app)
        app.router.add_get("/{path:.*}", self._get)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        try:
            site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
            await site.start()
            host, port = runner.addresses[0][:2]
            yield f"{'https' if tls else 'http'}://{host}:{port}"
        finally:
            self._is_over.set()
            await runner.cleanup()

    def objects(self, plural: str, start: int = 0, *, is_metadata: bool = False) -> Iterator[str]:
        """The copies, or their `metadata` alone, as JSON from number `start` on; each has a name
        and UIDs of its own."""
        texts = (self._heads if is_metadata else self._texts).get(plural, ())
        for number in range(start, self._copies * len(texts)):
            copy, which = divmod(number, len(texts))
            text = texts[which].replace(self._name, f"copy-{copy:06d}")
            for uid in self._uids:
                # The last group of a UID is twelve digits of its own.
                text = text.replace(uid, f"{uid[:-12]}{copy:012d}")
            yield text

    async def _get(self, request: web.Request) -> web.StreamResponse:
        plural = request.path.rpartition("/")[2]
        if request.query.get("watch") == "true":
            return await self._watch(request, plural)
        is_metadata = request.headers.get("Accept") == METADATA_LIST
        # Who asks by a field asks for a name, which no copy has.
        shown = "" if "fieldSelector" in request.query else plural
        return self._page(request.query, shown, is_metadata=is_metadata)

    def _page(self, query: Mapping[str, str], plural: str, *, is_metadata: bool) -> web.Response:
        start, limit = int(query.get("continue") or 0), int(query.get("limit") or _CHUNK)
        items = list(islice(self.objects(plural, start, is_metadata=is_metadata), limit))
        more = str(start + limit) if len(items) == limit else ""
        if not more:
            self.lists[plural] += 1
        metadata = json.dumps({"resourceVersion": _VERSION, "continue": more})
        text = f'{{"metadata": {metadata}, "items": [{",".join(items)}]}}'
        return web.Response(text=text, content_type="application/json")

    async def _watch(self, request: web.Request, plural: str) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(request)
        if request.query.get("sendInitialEvents") == "true":
            found = self.objects(plural)
            while chunk := list(islice(found, _CHUNK)):
                lines = (f'{{"type":"ADDED","object":{text}}}\n' for text in chunk)
                await answer.write("".join(lines).encode())
            end = {
                "resourceVersion": _VERSION,
                "annotations": {"k8s.io/initial-events-end": "true"},
            }
            mark = json.dumps({"type": "BOOKMARK", "object": {"metadata": end}})
            await answer.write(mark.encode() + b"\n")
        await self._is_over.wait()
        return answer


def _text(body: Object) -> str:
    metadata = {**body["metadata"], "resourceVersion": _VERSION}
    return json.dumps({**body, "metadata": metadata}, separators=(",", ":"))


def _head(body: Object) -> str:
    return _text({"metadata": body["metadata"]})
