"""A small fake API server for programs that use one: objects in memory, over HTTP.

It knows reading, listing, watching from a list on, creating, patching and deleting, and can refuse.
Everything that an API server judges is tested on the real one.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Mapping
from copy import deepcopy
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

from typing_extensions import override

Object = dict[str, Any]
DATE = "Sun, 01 Mar 2026 12:00:00 GMT"
"""Of every answer: what is shown of ages is the same at any time."""


class StandIn:
    """Listens on loopback; a context manager.

    Attributes:
        objects: by path.
        logs: lines of logs by the pod's name, or by `POD/CONTAINER`, with `/previous` those of the
            run before; each begins with its time.
        refusals: Status bodies by method and path, in place of an answer; of what is to be created
            also by the path that it would have.
        requests: method, path with query, and body of each request.
    """

    def __init__(self) -> None:
        self.objects: dict[str, Object] = {}
        self.logs: dict[str, list[str]] = {}
        self.refusals: dict[tuple[str, str], Object] = {}
        self.requests: list[tuple[str, str, Any]] = []
        self.changes: list[tuple[str, str, Object]] = []
        self.changed = threading.Condition()
        self.closed = False
        self._server = _Server(("127.0.0.1", 0), partial(_Handler, self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        )

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with self.changed:
            self.closed = True
            self.changed.notify_all()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def url(self) -> str:
        host, port = self._server.server_address[:2]
        return f"http://{host!s}:{port}"

    def put(self, path: str, obj: Object, kind: str = "MODIFIED") -> None:
        """Store an object; open watches receive it."""
        with self.changed:
            obj = {**obj, "metadata": {**obj["metadata"], "resourceVersion": self._next()}}
            self.objects[path] = obj
            self.changes.append((path, kind, obj))
            self.changed.notify_all()

    def remove(self, path: str) -> Object:
        """Remove an object; open watches receive the deletion."""
        with self.changed:
            gone = self.objects.pop(path)
            gone = {**gone, "metadata": {**gone["metadata"], "resourceVersion": self._next()}}
            self.changes.append((path, "DELETED", gone))
            self.changed.notify_all()
            return gone

    def kubeconfig(self, file: Path, namespace: str = "rl") -> Path:
        """Write access to it."""
        context = {"cluster": "c", "user": "u", "namespace": namespace}
        body = {
            "current-context": "test",
            "clusters": [{"name": "c", "cluster": {"server": self.url}}],
            "users": [{"name": "u", "user": {"token": "secret"}}],
            "contexts": [{"name": "test", "context": context}],
        }
        file.write_text(json.dumps(body))
        return file

    def changes_since(self, seen: int) -> list[tuple[str, str, Object]]:
        """Wait for changes after the first `seen`; none if there are none for a second."""
        with self.changed:
            self.changed.wait_for(lambda: self.closed or len(self.changes) > seen, 1)
            return self.changes[seen:]

    def _next(self) -> str:
        return str(len(self.changes) + 1)


class _Server(ThreadingHTTPServer):
    # Pages and watches in dozens come at once.
    request_queue_size = 64

    @override
    def handle_error(self, request: Any, client_address: Any) -> None:
        """A watch whose client has gone is no error."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    def __init__(self, world: StandIn, *connection: Any) -> None:
        self._world = world
        super().__init__(*connection)

    protocol_version = "HTTP/1.1"
    # Otherwise a body would wait up to 40 ms for the acknowledgement of its head.
    disable_nagle_algorithm = True

    @override
    def log_message(self, format: str, *args: object) -> None:  # as it is there
        pass

    @override
    def date_time_string(self, timestamp: float | None = None) -> str:
        return DATE

    def _serve(self) -> None:
        split = urlsplit(self.path)
        size = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(size)) if size else None
        self._world.requests.append((self.command, self.path, deepcopy(body)))
        query = {key: values[0] for key, values in parse_qs(split.query).items()}
        if refusal := self._world.refusals.get((self.command, split.path)):
            self._answer(refusal["code"], refusal)
        elif query.get("sendInitialEvents"):
            # As an API server that is older than them.
            message = "sendInitialEvents is forbidden"
            self._answer(422, {"code": 422, "reason": "Invalid", "message": message})
        elif query.get("watch"):
            self._watch(split.path, query)
        elif split.path.endswith("/log"):
            self._log(split.path.split("/")[-2], query)
        else:
            getattr(self, f"_{self.command.lower()}")(split.path, query, body)

    do_GET = do_POST = do_PATCH = do_DELETE = _serve  # as it is there

    def _get(self, path: str, query: Mapping[str, str], _: Any) -> None:
        if path in self._world.objects:
            self._answer(200, self._world.objects[path])
            return
        if not path.endswith(_COLLECTIONS):
            self._missing(path)
            return
        found = [obj for key, obj in self._world.objects.items() if _is_in(path, key, obj, query)]
        self._answer(200, {"metadata": {"resourceVersion": self._world._next()}, "items": found})

    def _post(self, path: str, query: Mapping[str, str], body: Any) -> None:
        if path.endswith("/token"):
            status = {"token": "made", "expirationTimestamp": "2099-03-01T13:00:00Z"}
            self._answer(201, {"metadata": {}, "status": status})
            return
        if path.endswith("reviews"):
            self._answer(201, self._world.objects.get(path, body))
            return
        key = f"{path}/{body['metadata']['name']}"
        if refusal := self._world.refusals.get(("POST", key)):
            self._answer(refusal["code"], refusal)
            return
        if key in self._world.objects:
            message = f'"{body["metadata"]["name"]}" already exists'
            self._answer(409, {"code": 409, "reason": "AlreadyExists", "message": message})
            return
        if "/namespaces/" in path:
            own = {"namespace": path.split("/namespaces/")[1].split("/", maxsplit=1)[0]}
            body = {**body, "metadata": {**own, **body["metadata"]}}
        if "dryRun" not in query:
            self._world.put(key, body, "ADDED")
        self._answer(201, body)

    def _patch(self, path: str, query: Mapping[str, str], body: Any) -> None:
        if path not in self._world.objects:
            self._missing(path)
            return
        obj = deepcopy(self._world.objects[path])
        if isinstance(body, list):
            # Patches begin with the version that was read, or with a test of another field.
            version = {
                "op": "replace",
                "path": "/metadata/resourceVersion",
                "value": obj["metadata"]["resourceVersion"],
            }
            if body[0]["op"] == "replace" and body[0] != version:
                message = "the object has been modified; please apply your changes to the latest"
                self._answer(409, {"code": 409, "reason": "Conflict", "message": message})
                return
            for operation in body[1:]:
                *parents, last = operation["path"].strip("/").split("/")
                owner: Any = obj
                for key in parents:
                    owner = owner[int(key)] if isinstance(owner, list) else owner[key]
                if operation["op"] == "remove":
                    del owner[last]
                else:
                    owner[last] = operation["value"]
        else:
            obj = _merged(obj, body)
        if "dryRun" not in query:
            self._world.put(path, obj)
        self._answer(200, obj)

    def _delete(self, path: str, query: Mapping[str, str], body: Any) -> None:
        if path in self._world.objects:
            self._answer(200, self._world.remove(path))
        else:
            self._missing(path)

    def _log(self, pod: str, query: Mapping[str, str]) -> None:
        logs, suffix = self._world.logs, "/previous" if query.get("previous") else ""
        lines = logs.get(f"{pod}/{query.get('container')}{suffix}", logs.get(f"{pod}{suffix}", []))
        lines = lines[-int(query["tailLines"]) :] if "tailLines" in query else lines
        self._send(200, "".join(f"{line}\n" for line in lines).encode())

    def _watch(self, path: str, query: Mapping[str, str]) -> None:
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        seen = int(query["resourceVersion"]) - 1
        while True:
            news = self._world.changes_since(seen)
            seen += len(news)
            for key, kind, obj in news:
                if _is_in(path, key, obj, query):
                    line = json.dumps({"type": kind, "object": obj}).encode() + b"\n"
                    self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
            if self._world.closed or not news:
                self.wfile.write(b"0\r\n\r\n")
                return

    def _missing(self, path: str) -> None:
        kind, name = path.split("/")[-2:]
        message = f'{kind} "{name}" not found'
        self._answer(404, {"code": 404, "reason": "NotFound", "message": message})

    def _answer(self, code: int, body: Any) -> None:
        self._send(code, json.dumps(body).encode())

    def _send(self, code: int, raw: bytes) -> None:
        self.send_response(code)
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)


_COLLECTIONS = (
    *(
        "/dijobs",
        "/dijobtemplates",
        "/clusterdijobtemplates",
        "/pods",
        "/events",
        "/nodes",
        "/deployments",
        "/leases",
        "/resourcequotas",
        "/persistentvolumeclaims",
    ),
    *("/mutatingwebhookconfigurations", "/validatingwebhookconfigurations", "/priorityclasses"),
    *("/workloads", "/configmaps", "/limitranges", "/disweeps"),
)


def _merged(value: Any, patch: Any) -> Any:
    """JSON merge patch (RFC 7396)."""
    if not isinstance(patch, dict):
        return patch
    found = dict(value) if isinstance(value, dict) else {}
    for key, each in patch.items():
        if each is None:
            found.pop(key, None)
        else:
            found[key] = _merged(found.get(key), each)
    return found


def _is_in(path: str, key: str, obj: Object, query: Mapping[str, str]) -> bool:
    """Whether an object is of a collection, of one namespace or of all, and is selected."""
    folder, _, plural = path.rpartition("/")
    parent, name = key.rpartition("/")[0], key.rpartition("/")[2]
    whole = parent == path or (parent.startswith(f"{folder}/") and parent.endswith(f"/{plural}"))
    labels = obj["metadata"].get("labels") or {}
    terms = [each.partition("=") for each in query.get("labelSelector", "").split(",") if each]
    # A label alone is selected whatever its value.
    wanted = {name: value if sign else labels.get(name) for name, sign, value in terms}
    fields = query.get("fieldSelector", "")
    return (
        whole
        and all(_selects(each, name, obj) for each in fields.split(",") if each)
        and wanted.items() <= labels.items()
    )


def _selects(term: str, name: str, obj: Object) -> bool:
    """By a name, by what an event is about, or by a phase that it is not."""
    key, _, value = term.partition("=")
    if key.startswith("involvedObject."):
        return bool(obj["involvedObject"].get(key.partition(".")[2]) == value)
    return (obj.get("status") or {}).get("phase") != value if key.endswith("!") else name == value
