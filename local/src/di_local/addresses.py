"""Loopback addresses of pods and Services, in place of a cluster's DNS.

Programs of a DIJob get names (DI_NODES and others) and listen on fixed ports. On Linux every
address of 127.0.0.0/8 belongs to this machine. So each pod gets one, the ports stay the same, and
each name is replaced by its address wherever a program reads it. A recreated pod keeps its name and
so its address.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from random import Random
from typing import Final

from di_api.dns_names import DNS_LABEL
from di_api.names import (
    DEFAULT_SERVICE_DOMAIN,
    SERVER_PORT,
    service_name,
)

_NETWORKS: Final = range(64, 128)
"""Second bytes of the networks that are tried; few other programs use them."""
_FIRST, _LAST = 10, 254
_UNPRIVILEGED: Final = 1024
_INSTEAD: Final = 20_000
MAX_NAMES: Final = _LAST - _FIRST + 1
"""Maximum number of pods and Services of one run."""


class NoAddress(Exception):
    """There is no free address for a pod or for di-server; the message has the reason."""


class Network:
    """The network 127.x.y.0/24, reserved for this run while `listener` is open."""

    def __init__(self, prefix: str, listener: socket.socket) -> None:
        self.prefix = prefix
        self.listener = listener
        """Listener of di-server on its usual port, which keeps other runs from using the
        network.
        """
        self.server = f"{prefix}.1"
        self._known: dict[str, str] = {}

    @property
    def server_url(self) -> str:
        """Return the URL of di-server."""
        host, port = self.listener.getsockname()
        return f"http://{host}:{port}"

    def address(self, name: str) -> str:
        """Return the address of a pod or a Service, always the same until `forget`.

        Raises:
            NoAddress: there are too many.
        """
        if name not in self._known:
            taken = set(self._known.values())
            every = (f"{self.prefix}.{number}" for number in range(_FIRST, _LAST + 1))
            found = next((address for address in every if address not in taken), None)
            if found is None:
                raise NoAddress(f"a run has addresses for {MAX_NAMES} pods, not for {name}")
            self._known[name] = found
        return self._known[name]

    def forget(self, name: str) -> None:
        """Release the address of a name that will not be used again."""
        self._known.pop(name, None)


def take_network(rng: Random) -> Network:
    """Reserve a network that no other run uses.

    Raises:
        NoAddress: this system supports only 127.0.0.1, or no network is free.
    """
    refusals = []
    for prefix in _prefixes(rng):
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((f"{prefix}.1", SERVER_PORT))
            listener.listen(128)
        except OSError as error:
            listener.close()
            refusals.append(error)
        else:
            return Network(prefix, listener)
    raise NoAddress(
        f"no address for di-server beside 127.0.0.1 ({refusals[-1]}): Linux has all of "
        "127.0.0.0/8, other systems do not, and a job runs there in a cluster only"
    )


def _prefixes(rng: Random) -> Iterator[str]:
    for _ in range(64):
        yield f"127.{rng.choice(_NETWORKS)}.{rng.randrange(256)}"


def service_port(port: int) -> int:
    """Return the local port for a Service's port, because users cannot listen on ports
    below 1024.
    """
    return port if port >= _UNPRIVILEGED else _INSTEAD + port


class Names:
    """Replaces the DNS names of one job, or of all trials of a sweep, in texts."""

    def __init__(
        self, network: Network, *, namespace: str, job: str, is_sweep: bool = False
    ) -> None:
        self._network = network
        trial = r"-\d{1,5}" if is_sweep else ""
        pod = rf"(?P<pod>{DNS_LABEL})\.{re.escape(service_name(job))}{trial}"
        service = rf"(?P<service>{re.escape(job)}{trial}-{DNS_LABEL})"
        self._pattern = re.compile(
            rf"(?<![\w.-])(?:{pod}|{service})\.{re.escape(namespace)}"
            rf"(?:\.{re.escape(DEFAULT_SERVICE_DOMAIN)})?(?![\w-]|\.\w)(?::(?P<port>\d{{1,5}}))?"
        )

    def replaced(self, text: str) -> str:
        """Return the text with addresses in place of names."""
        return self._pattern.sub(self._address, text)

    def _address(self, found: re.Match[str]) -> str:
        address, port = self._network.address(found["pod"] or found["service"]), found["port"]
        if port is None:
            return address
        return f"{address}:{service_port(int(port)) if found['service'] else port}"
