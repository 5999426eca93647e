"""A small client of the cluster's own API server, with the administrator's certificate."""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from di_cluster.errors import ClusterError


class ApiRefused(ClusterError):
    """The API server answered with an error code."""

    def __init__(self, *, method: str, path: str, code: int, body: str) -> None:
        super().__init__(f"{method} {path}: {code}: {body[:500]}")
        self.code = code


class ApiServer:
    """Requests to the API server that a kubeconfig of this package names.

    Deliberately not the product's own client: the cluster must come up whatever state that is in.
    """

    def __init__(self, kubeconfig: Path, *, seconds: float = 15) -> None:
        self._kubeconfig = kubeconfig
        self._seconds = seconds
        self._context: ssl.SSLContext | None = None
        self._address: tuple[str, int] | None = None

    def ready(self) -> bool:
        """Whether the API server says that it can serve; False also if it does not answer."""
        try:
            return self._request("GET", "/readyz") == b"ok"
        except (OSError, ApiRefused, http.client.HTTPException):
            return False

    def get(self, path: str) -> dict[str, Any]:
        """Read one object or list.

        Raises:
            ApiRefused: the answer is an error.
            OSError: there is no answer.
        """
        answer: dict[str, Any] = json.loads(self._request("GET", path))
        return answer

    def create(self, path: str, body: Mapping[str, Any]) -> bool:
        """Create an object; returns False if it is there already.

        Raises:
            ApiRefused: it is refused for another reason.
            OSError: there is no answer.
        """
        try:
            self._request("POST", path, body=body)
        except ApiRefused as error:
            # A Service whose fixed clusterIP is its own already is refused with 422 before
            # anybody looks whether the name exists.
            if error.code in {409, 422}:
                return False
            raise
        return True

    def delete(self, path: str) -> None:
        """Delete an object; one that does not exist is fine."""
        try:
            self._request("DELETE", path)
        except ApiRefused as error:
            if error.code != 404:
                raise

    def _request(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> bytes:
        context, (host, port) = self._connect()
        # http.client asks no proxy: a proxy cannot reach the box.
        connection = http.client.HTTPSConnection(host, port, timeout=self._seconds, context=context)
        try:
            connection.request(
                method,
                path,
                body=None if body is None else json.dumps(body),
                headers={"Content-Type": "application/json", "Accept": "application/json"},
            )
            response = connection.getresponse()
            content = response.read()
        finally:
            connection.close()
        if response.status >= 300:
            raise ApiRefused(
                method=method,
                path=path,
                code=response.status,
                body=content.decode(errors="replace"),
            )
        return content

    def _connect(self) -> tuple[ssl.SSLContext, tuple[str, int]]:
        if self._context is None or self._address is None:
            config = json.loads(self._kubeconfig.read_text())
            cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
            authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
            self._context = ssl.create_default_context(cadata=authority)
            # The ssl module reads client certificates from files only.
            with tempfile.NamedTemporaryFile(suffix=".pem") as pem:
                pem.write(base64.b64decode(user["client-certificate-data"]))
                pem.write(base64.b64decode(user["client-key-data"]))
                pem.flush()
                self._context.load_cert_chain(pem.name)
            url = urlsplit(cluster["server"])
            self._address = (url.hostname or "", url.port or 443)
        return self._context, self._address
