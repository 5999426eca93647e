"""The Leases of a stand-in of the API server: kept in memory, with versions and conflicts."""

from __future__ import annotations

import itertools
from typing import Any, Final

from aiohttp import web

Object = dict[str, Any]
_COLLECTION: Final = "/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"


class Leases:
    """Serves Leases.

    Attributes:
        holders: the holder of each Lease, by its name.
    """

    def __init__(self) -> None:
        self._leases: dict[tuple[str, str], Object] = {}
        self._numbers = itertools.count(1)
        self.holders: dict[str, str] = {}

    def add_to(self, app: web.Application) -> None:
        """Add the routes."""
        app.router.add_get("/apis/coordination.k8s.io/v1/leases", self._list)
        app.router.add_get(_COLLECTION, self._list)
        app.router.add_post(_COLLECTION, self._create)
        app.router.add_get(_COLLECTION + "/{name}", self._read)
        app.router.add_put(_COLLECTION + "/{name}", self._replace)

    async def _list(self, request: web.Request) -> web.Response:
        wanted = request.query.get("fieldSelector", "").removeprefix("metadata.name=")
        items = [lease for (_, name), lease in self._leases.items() if wanted in ("", name)]
        return web.json_response({"metadata": {"resourceVersion": "1"}, "items": items})

    async def _read(self, request: web.Request) -> web.Response:
        found = self._leases.get(_key(request))
        return _refused(404, "NotFound") if found is None else web.json_response(found)

    async def _create(self, request: web.Request) -> web.Response:
        body = await request.json()
        name = body["metadata"]["name"]
        if (request.match_info["namespace"], name) in self._leases:
            return _refused(409, "AlreadyExists")
        return self._put(request.match_info["namespace"], name, body)

    async def _replace(self, request: web.Request) -> web.Response:
        body, key = await request.json(), _key(request)
        if (found := self._leases.get(key)) is None:
            return _refused(404, "NotFound")
        version = body["metadata"].get("resourceVersion")
        if version not in (None, found["metadata"]["resourceVersion"]):
            return _refused(409, "Conflict")
        return self._put(*key, body)

    def _put(self, namespace: str, name: str, body: Object) -> web.Response:
        number = next(self._numbers)
        identity = {"namespace": namespace, "name": name, "resourceVersion": str(number)}
        uid = body["metadata"].get("uid") or f"00000000-0000-4000-8000-{number:012d}"
        made = {**body, "metadata": {**body["metadata"], **identity, "uid": uid}}
        self._leases[namespace, name] = made
        self.holders[name] = made["spec"].get("holderIdentity") or ""
        return web.json_response(made)


def _key(request: web.Request) -> tuple[str, str]:
    return request.match_info["namespace"], request.match_info["name"]


def _refused(code: int, reason: str) -> web.Response:
    body = {"kind": "Status", "code": code, "reason": reason, "message": reason}
    return web.json_response(body, status=code)
