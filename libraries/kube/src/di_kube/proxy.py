"""Selection of the HTTP proxy for an API server, by the rules of kubectl."""

from __future__ import annotations

import base64
import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

_PORTS = {"http": 80, "https": 443}


class BadProxy(ValueError):
    """The proxy cannot be used; the message has its URL and the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proxy:
    """An HTTP proxy that supports CONNECT.

    Attributes:
        host, port: its address.
        authorization: value of the Proxy-Authorization header, if its URL names a user.
    """

    host: str
    port: int
    authorization: str | None = field(default=None, repr=False)

    @property
    def url(self) -> str:
        """Return its base URL, without a user."""
        return f"http://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"

    @property
    def headers(self) -> dict[str, str]:
        """Return the headers of a CONNECT request."""
        return {} if self.authorization is None else {"Proxy-Authorization": self.authorization}


def proxy_for(server: str, named: str | None, environ: Mapping[str, str]) -> Proxy | None:
    """Return the proxy for a server's base URL; None: connections are direct.

    The `proxy-url` of the kubeconfig (`named`) overrides the environment, and NO_PROXY does not
    apply to it. Otherwise HTTPS_PROXY or HTTP_PROXY counts, by the server's scheme, and never for
    this machine itself.

    Raises:
        BadProxy: it is not a URL, or its scheme is not http.
    """
    if named:
        return read_proxy(named, "proxy-url")
    url = urlsplit(server)
    variable = f"{url.scheme}_proxy"
    found = environ.get(variable.upper()) or environ.get(variable)
    host, port = url.hostname or "", url.port or _PORTS.get(url.scheme, 443)
    excluded = environ.get("NO_PROXY") or environ.get("no_proxy") or ""
    if not found or _is_local(host) or _is_excluded(host, port, excluded):
        return None
    return read_proxy(found, variable.upper())


def read_proxy(text: str, source: str) -> Proxy:
    """Parse the URL of a proxy, or its host and port; `source` is where it was found. Raises
    BadProxy.
    """
    url = urlsplit(text if "://" in text else f"http://{text}")
    try:
        host, port = url.hostname, url.port
    except ValueError as error:
        raise BadProxy(f"{source}: it is no URL of a proxy: {error}") from error
    if url.scheme != "http":
        raise BadProxy(f"{source}: a proxy of scheme {url.scheme!r}; only http:// is supported")
    if not host:
        raise BadProxy(f"{source}: it is no URL of a proxy: it has no host")
    authorization = None
    if url.username is not None:
        login = f"{unquote(url.username)}:{unquote(url.password or '')}"
        authorization = f"Basic {base64.b64encode(login.encode()).decode()}"
    return Proxy(host=host, port=port or _PORTS["http"], authorization=authorization)


def _is_local(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _is_excluded(host: str, port: int, excluded: str) -> bool:
    return any(_matches(each.strip().lower(), host, port) for each in excluded.split(","))


def _matches(entry: str, host: str, port: int) -> bool:
    """Return whether an entry of NO_PROXY matches the host: `*`, an address or range, a domain with
    everything below it, or with a leading dot only what is below it; each with or without a port.
    """
    if entry in ("", "*"):
        return entry == "*"
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        address = None
    name, its_port = _split_port(entry)
    if its_port is not None and its_port != port:
        return False
    if address is not None:
        try:
            return address in ipaddress.ip_network(name, strict=False)
        except (TypeError, ValueError):
            return False
    name = name.removeprefix("*")
    return host.endswith(name) if name.startswith(".") else f".{host}".endswith(f".{name}")


def _split_port(entry: str) -> tuple[str, int | None]:
    name, colon, port = entry.rpartition(":")
    bare = name.removeprefix("[").removesuffix("]")
    # The last part of an IPv6 address without brackets is not a port.
    if colon and port.isdecimal() and (":" not in name or name.startswith("[")):
        return bare, int(port)
    return entry.removeprefix("[").removesuffix("]"), None
