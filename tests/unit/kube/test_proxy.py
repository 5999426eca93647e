"""Which proxy leads to an API server, and that all of a client's requests go through it."""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event, Thread

import pytest
import uvloop

from di_certs.files import CA_CERTIFICATE, CERTIFICATE, PRIVATE_KEY, write_certificates
from di_cli.access.kubeconfig import read_access
from di_kube.client import KubeClient
from di_kube.config import ConfigError, KubeConfig, load_config
from di_kube.errors import ApiError
from di_kube.proxy import BadProxy, Proxy, proxy_for
from di_kube.resources import DIJOBS
from di_kube.sync import SyncKubeClient

# A name that no resolver knows: only the proxy can find it.
NAME = "kubernetes.default.svc"
SERVER = f"https://{NAME}:6443"
PROXY = "http://proxy.example:3128"


@pytest.mark.parametrize(
    ("server", "named", "environ", "found"),
    [
        (SERVER, None, {}, None),
        (SERVER, PROXY, {}, PROXY),
        (SERVER, None, {"HTTPS_PROXY": PROXY}, PROXY),
        (SERVER, None, {"https_proxy": PROXY}, PROXY),
        (SERVER, None, {"HTTPS_PROXY": "proxy.example:3128"}, PROXY),
        (SERVER, None, {"HTTPS_PROXY": PROXY, "https_proxy": "http://other:1"}, PROXY),
        (SERVER, None, {"HTTP_PROXY": PROXY}, None),
        (SERVER, None, {"ALL_PROXY": PROXY}, None),
        ("http://kubernetes:8080", None, {"HTTP_PROXY": PROXY}, PROXY),
        (SERVER, "http://named:80", {"HTTPS_PROXY": PROXY, "NO_PROXY": "*"}, "http://named:80"),
        # This machine is never asked for through a proxy, unless the kubeconfig says so.
        ("https://127.0.0.1:6443", None, {"HTTPS_PROXY": PROXY}, None),
        ("https://[::1]:6443", None, {"HTTPS_PROXY": PROXY}, None),
        ("https://localhost:6443", None, {"HTTPS_PROXY": PROXY}, None),
        ("https://127.0.0.1:6443", PROXY, {}, PROXY),
    ],
)
def test_the_kubeconfig_goes_before_the_environment(
    server: str, named: str | None, environ: dict[str, str], found: str | None
) -> None:
    proxy = proxy_for(server, named, environ)
    assert (None if proxy is None else proxy.url) == found


@pytest.mark.parametrize(
    ("excluded", "server", "is_direct"),
    [
        ("*", SERVER, True),
        (NAME, SERVER, True),
        ("default.svc", SERVER, True),
        (".default.svc", SERVER, True),
        ("*.default.svc", SERVER, True),
        (f".{NAME}", SERVER, False),
        ("fault.svc", SERVER, False),
        (f" other , {NAME.upper()} ", SERVER, True),
        (f"{NAME}:6443", SERVER, True),
        (f"{NAME}:443", SERVER, False),
        (f"{NAME}:443", f"https://{NAME}", True),
        ("10.0.0.0/8", "https://10.1.2.3:6443", True),
        ("10.0.0.0/8", "https://11.1.2.3:6443", False),
        ("10.1.2.3", "https://10.1.2.3", True),
        ("10.1.2.3:6443", "https://10.1.2.3", False),
        ("2001:db8::/32", "https://[2001:db8::1]:6443", True),
        ("[2001:db8::1]:6443", "https://[2001:db8::1]:6443", True),
        ("2001:db8::1", "https://[2001:db8::2]:6443", False),
        ("", SERVER, False),
        (",,", SERVER, False),
    ],
)
def test_no_proxy_names_hosts_domains_and_ranges(
    excluded: str, server: str, is_direct: bool
) -> None:
    for variable in ("NO_PROXY", "no_proxy"):
        environ = {"HTTPS_PROXY": PROXY, variable: excluded}
        assert (proxy_for(server, None, environ) is None) is is_direct


@pytest.mark.parametrize("named", ["socks5://p:1080", "https://p", "http://", "http://p:x"])
def test_a_proxy_that_cannot_be_used_is_refused_with_its_source(named: str) -> None:
    with pytest.raises(BadProxy, match="proxy-url"):
        proxy_for(SERVER, named, {})


def test_the_password_of_a_proxy_is_in_no_description() -> None:
    proxy = proxy_for(SERVER, "http://me:s%40cret@p:1", {})
    assert proxy is not None
    assert proxy.headers["Proxy-Authorization"].split() == [
        "Basic",
        base64.b64encode(b"me:s@cret").decode(),
    ]
    assert "cret" not in repr(proxy) + proxy.url


def _write(tmp_path: Path, proxy: str) -> Path:
    file = tmp_path / "config"
    file.write_text(
        f"""
current-context: x
contexts: [{{name: x, context: {{cluster: c, user: u}}}}]
clusters: [{{name: c, cluster: {{server: "{SERVER}", proxy-url: "{proxy}"}}}}]
users: [{{name: u, user: {{token: t}}}}]
"""
    )
    return file


def test_commands_and_services_read_the_proxy_of_a_kubeconfig(tmp_path: Path) -> None:
    file = _write(tmp_path, PROXY)
    expected = Proxy(host="proxy.example", port=3128)
    assert load_config(str(file)).proxy == expected
    assert read_access(file=file).config.proxy == expected


def test_commands_and_services_name_the_file_of_a_bad_proxy(tmp_path: Path) -> None:
    file = _write(tmp_path, "socks5://p")
    for read in (lambda: load_config(str(file)), lambda: read_access(file=file)):
        with pytest.raises(ConfigError, match=rf"{file}.*proxy-url.*socks5"):
            read()


NO_JOBS = b'{"kind": "DIJobList", "items": [], "metadata": {"resourceVersion": "1"}}'
BOOKMARK = b'{"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "2"}}}\n'


class _Servers:
    """An API server under a name that no resolver knows, and the proxy that leads to it."""

    def __init__(self, certificates: Path, *, refuses: bool = False) -> None:
        self._certificates = certificates
        self._refuses = refuses
        self._end: Callable[[], object] = lambda: None
        self.asked: list[bytes] = []
        self.served: list[bytes] = []
        self.port = 0

    async def serve(self, ready: Event) -> None:
        end = asyncio.Event()
        loop = asyncio.get_running_loop()
        self._end = lambda: loop.call_soon_threadsafe(end.set)
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(self._certificates / CERTIFICATE, self._certificates / PRIVATE_KEY)
        api = await asyncio.start_server(self._answer, "127.0.0.1", 0, ssl=tls)
        self._api_port = api.sockets[0].getsockname()[1]
        proxy = await asyncio.start_server(self._connect, "127.0.0.1", 0)
        self.port = proxy.sockets[0].getsockname()[1]
        ready.set()
        await end.wait()
        for server in (api, proxy):
            server.close()

    def end(self) -> None:
        self._end()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await _head(reader):
                self.served.append(head)
                body = b'{"kind": "DIJobList", "items": [], "metadata": {"resourceVersion": "1"}}'
                if b"watch=" in head:
                    body = (
                        b'{"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "2"}}}\n'
                    )
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        finally:
            # Also when the loop ends first.
            writer.transport.abort()

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.asked.append(await _head(reader))
        if self._refuses:
            writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n")
            writer.close()
            return
        there_reader, there_writer = await asyncio.open_connection("127.0.0.1", self._api_port)
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        await asyncio.gather(_copy(reader, there_writer), _copy(there_reader, writer))


async def _head(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, OSError):
        return b""


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(1 << 16):
            writer.write(data)
    except OSError:
        pass
    finally:
        writer.close()


@contextmanager
def _running(folder: Path, *, refuses: bool = False) -> Iterator[tuple[_Servers, KubeConfig]]:
    write_certificates(folder, [NAME], now=datetime.now(UTC), lifetime=timedelta(hours=1))
    servers, ready = _Servers(folder, refuses=refuses), Event()
    thread = Thread(target=lambda: asyncio.run(servers.serve(ready)), daemon=True)
    thread.start()
    assert ready.wait(30)
    config = KubeConfig(
        server=SERVER,
        ca_pem=(folder / CA_CERTIFICATE).read_bytes(),
        authorization=lambda: "Bearer secret",
        proxy=proxy_for(SERVER, f"http://me:pw@127.0.0.1:{servers.port}", {}),
    )
    try:
        yield servers, config
    finally:
        servers.end()
        thread.join(30)


def _check(servers: _Servers, lines: Sequence[str]) -> None:
    login = base64.b64encode(b"me:pw").decode()
    for asked in servers.asked:
        assert asked.startswith(f"CONNECT {NAME}:6443 HTTP/1.".encode())
        assert f"proxy-authorization: basic {login}".lower() in asked.decode().lower()
        # What the proxy sees has nothing of the API server's.
        assert b"secret" not in asked
    assert [each.split(b" HTTP", 1)[0].decode().split("?")[0] for each in servers.served] == lines
    assert all(b"Bearer secret" in each for each in servers.served)


def test_the_commands_client_asks_through_the_proxy(tmp_path: Path) -> None:
    with _running(tmp_path) as (servers, config):
        with SyncKubeClient(config=config) as client:
            assert client.list(DIJOBS)[0] == []
        assert len(servers.asked) == 1
        _check(servers, [f"GET {DIJOBS.path(None)}"])


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_requests_and_watches_of_services_go_through_the_proxy(
    tmp_path: Path, loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    async def ask(config: KubeConfig) -> None:
        async with KubeClient(config=config) as client:
            assert (await client.list(DIJOBS))[0] == []
            async for kind, _ in client.watch(DIJOBS, resource_version="1", timeout_seconds=5):
                assert kind == "BOOKMARK"
                break

    with _running(tmp_path) as (servers, config):
        with asyncio.Runner(loop_factory=loop) as runner:
            runner.run(ask(config))
        assert len(servers.asked) == 2
        _check(servers, [f"GET {DIJOBS.path(None)}"] * 2)


def test_a_proxy_that_refuses_is_an_error_with_its_answer(tmp_path: Path) -> None:
    async def ask(config: KubeConfig) -> None:
        async with KubeClient(config=config) as client:
            with pytest.raises(ApiError, match="407"):
                await client.get(DIJOBS, "x", "ns")

    with _running(tmp_path, refuses=True) as (_, config):
        with SyncKubeClient(config=config) as client, pytest.raises(ApiError, match="407"):
            client.get(DIJOBS, "x", "ns")
        asyncio.run(ask(config))
