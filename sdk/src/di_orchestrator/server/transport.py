"""Sending of requests: the only module that opens connections."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from di_orchestrator.server.exchange import Answer, Request, Silence

if TYPE_CHECKING:
    import requests

CONNECT_SECONDS = 5.0
MAX_ANSWER = 4 * 1024 * 1024
"""Maximum bytes of a response; the board of a job has at most a quarter of that."""
MAX_TAG = 128
"""Maximum characters of an ETag; those of di-server have 18."""
_CHUNK = 64 * 1024


@dataclass(frozen=True)
class Transport:
    """The connection settings of one di-server; thread-safe.

    Attributes:
        url: of the server.
        token_file: file with this pod's token; None if no token is used.
        ca_file: file with the server's CA certificates; None: the system's.
    """

    url: str
    token_file: str | None = None
    ca_file: str | None = None

    @classmethod
    def of(cls, environment: Mapping[str, str], *, url: str = "DI_SERVER_URL") -> Transport | None:
        """Return the transport from a pod's variables; None if they are not set.

        Args:
            url: the variable with the server's URL.
        """
        if not environment.get(url):
            return None
        return cls(
            environment[url].rstrip("/"),
            environment.get("DI_SERVER_TOKEN_FILE") or None,
            environment.get("DI_SERVER_CA_FILE") or None,
        )

    def send(self, request: Request) -> Answer | Silence:
        """Send a request once, within its timeout; never raises."""
        try:
            # Read each time, because the kubelet renews it.
            authorization = self._authorization()
        except OSError as error:
            return Silence(f"{request.method} {self.url}{request.path}: {error}")
        return send_once(
            request.method,
            f"{self.url}{request.path}",
            seconds=request.seconds,
            most_bytes=MAX_ANSWER,
            params=dict(request.query),
            json=None if request.body is None else dict(request.body),
            headers={**request.headers, **authorization},
            verify=True if self.ca_file is None else self.ca_file,
        )

    def _authorization(self) -> dict[str, str]:
        if self.token_file is None:
            return {}
        return {"Authorization": f"Bearer {Path(self.token_file).read_text().strip()}"}


def send_once(
    method: str, url: str, *, seconds: float, most_bytes: int, **more: Any
) -> Answer | Silence:
    """Send a request once; never raises for errors of the network or the server.

    Args:
        seconds: timeout for the whole response.
        most_bytes: maximum size of the response.
        more: further arguments of `requests.Session.request`.
    """
    # A third of a second where no compiled files are kept, which no start of a program waits for.
    import requests  # noqa: PLC0415

    ends = time.monotonic() + seconds
    # A session per request: token and CA certificates change while the pod runs, and neither a
    # proxy of the image nor a netrc must apply.
    with requests.Session() as session:
        session.trust_env = False
        try:
            with session.request(
                method,
                url,
                timeout=(min(CONNECT_SECONDS, seconds), seconds),
                allow_redirects=False,
                stream=True,
                **more,
            ) as response:
                return Answer(
                    response.status_code,
                    _body(response, ends, most_bytes),
                    _seconds(response.headers.get("Retry-After", "")),
                    response.headers.get("ETag", "")[:MAX_TAG],
                )
        except (OSError, ValueError, requests.RequestException) as error:
            return Silence(f"{method} {url}: {error}")


def _body(response: requests.Response, ends: float, most_bytes: int) -> bytes:
    """Return the whole body within the timeout, even if the server sends it slowly."""
    found = bytearray()
    for chunk in response.iter_content(_CHUNK):
        found += chunk
        if len(found) > most_bytes:
            raise ValueError(f"the answer is longer than {most_bytes} bytes")
        if time.monotonic() > ends:
            raise ValueError("the answer did not come in time")
    return bytes(found)


def _seconds(text: str) -> float:
    return float(text) if text.isascii() and text.isdigit() and len(text) < 6 else 0.0
