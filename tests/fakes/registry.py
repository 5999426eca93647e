"""A registry of the OCI distribution specification, as far as pushing and pulling need it."""

from __future__ import annotations

import hashlib
import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from tests.fakes.web import Handler, serving


class Registry(ThreadingHTTPServer):
    """Keeps what is pushed in memory."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.blobs: dict[str, bytes] = {}
        self.manifests: dict[tuple[str, str], tuple[str, bytes]] = {}
        """Media type and bytes, by repository and tag or digest."""
        self.uploads: dict[str, bytes] = {}
        """What has come of blobs, by the path of the upload."""

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server_address[1]}"


@contextmanager
def registry() -> Iterator[Registry]:
    """One that runs."""
    server = Registry()
    with serving(server):
        yield server


class _Handler(Handler):
    server: Registry
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        if found := self._part("manifests"):
            media, body = self.server.manifests.get(found, ("", b""))
            digest = f"sha256:{hashlib.sha256(body).hexdigest()}"
            known = found in self.server.manifests
            self._answer(
                200 if known else 404,
                body,
                {"Content-Type": media, "Docker-Content-Digest": digest},
            )
        elif found := self._part("blobs"):
            blob = self.server.blobs.get(found[1])
            self._answer(404 if blob is None else 200, blob or b"")
        else:
            self._answer(200, b"{}")

    do_HEAD = do_GET

    def do_POST(self) -> None:
        path = f"{urlsplit(self.path).path}{uuid.uuid4()}"
        self.server.uploads[path] = b""
        self._answer(202, headers={"Location": path})

    def do_PATCH(self) -> None:
        self.server.uploads[self.path] += self._body()
        self._answer(202, headers={"Location": self.path})

    def do_PUT(self) -> None:
        body = self._body()
        if found := self._part("manifests"):
            digest = f"sha256:{hashlib.sha256(body).hexdigest()}"
            kept = self.headers["Content-Type"], body
            self.server.manifests[found] = self.server.manifests[found[0], digest] = kept
        else:
            (digest,) = parse_qs(urlsplit(self.path).query)["digest"]
            body = self.server.uploads.pop(urlsplit(self.path).path) + body
            if digest != f"sha256:{hashlib.sha256(body).hexdigest()}":
                self._answer(400)
                return
            self.server.blobs[digest] = body
        self._answer(201, headers={"Docker-Content-Digest": digest, "Location": self.path})

    def do_DELETE(self) -> None:
        """Of manifests: the list of what refers to a subject is replaced by a longer one."""
        found = self._part("manifests")
        known = found is not None and self.server.manifests.pop(found, None) is not None
        self._answer(202 if known else 404)

    def _part(self, kind: str) -> tuple[str, str] | None:
        found = re.fullmatch(rf"/v2/(.+)/{kind}/([^/]+)", urlsplit(self.path).path)
        return (found[1], found[2]) if found else None

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        parts = []
        while size := int(self.rfile.readline(), 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def _answer(self, code: int, body: bytes = b"", headers: dict[str, str] | None = None) -> None:
        self.send_response(code)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
